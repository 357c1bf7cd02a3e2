"""``python -m ottla.spark_jobs.jobs JOB ...``, and what spark-submit is given: a job without the ``ottla`` command."""

import signal
import sys

from ottla.spark_jobs.jobs import JOBS
from ottla.spark_jobs.jobs.program import run_job
from ottla.spark_jobs.jobs.streams import Talk
from ottla.wire.errors import OttlaError


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the query is stopped
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m ottla.spark_jobs.jobs JOB ...\n\n" + "\n".join(f"{n:<18}{w}" for n, w in JOBS.items()))
        return 2 if len(sys.argv) < 2 else 0
    talk = Talk(note=lambda text: print(text, file=sys.stderr, flush=True), write=lambda text: print(text, flush=True))
    try:
        run_job(sys.argv[1], sys.argv[2:], talk, prog="python -m ottla.spark_jobs.jobs")
    except KeyboardInterrupt:
        return 130
    except OttlaError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
