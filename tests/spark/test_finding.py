"""How Spark finds the source, and what that costs."""

import subprocess
import sys

from ottla.spark_jobs import register
from tests.support.machine import scaled
from tests.support.spark import produce


def test_the_source_is_found_by_itself_and_may_be_registered(spark, make_topic):
    topic = make_topic()
    produce(spark.bootstrap, topic, [b"v"])
    assert spark.batch(topic).count() == 1  # nobody has registered it
    register(spark.session)
    assert spark.batch(topic).count() == 1


def test_what_spark_imports_to_find_it_is_light():
    """Every session pays for it, whether it reads from Ottla or not."""
    code = "import sys, pyspark_ottla; print([name for name in %r if name in sys.modules])"
    heavy = ["ottla.client", "ottla.broker", "pyarrow", "numpy", "pandas", "kazoo", "msgspec", "uvloop"]
    done = subprocess.run(
        [sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True, timeout=scaled(60)
    )
    assert done.stdout.strip() == "[]"


def test_executors_need_nothing_of_the_broker():
    code = (
        "import sys; import ottla.spark_jobs.source, ottla.spark_jobs.batch_reader, ottla.spark_jobs.stream_reader, "
        "ottla.spark_jobs.slice_fetch_loop, ottla.spark_jobs.log_files; "
        "print([name for name in sys.modules if name.startswith(('ottla.broker', 'ottla.zk', 'kazoo', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=scaled(60))
    assert done.stdout.strip() == "[]"
