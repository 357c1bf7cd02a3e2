//! krafka: idempotent producer, groups, admin, in the versions of Kafka 4.3. krafka BOOTSTRAP all, or kill TOPIC COUNT.

use std::collections::BTreeSet;
use std::time::Duration;

use foreign::{Outcome, expect, now_ms, step, unique};
use krafka::admin::NewTopic;
use krafka::consumer::{AutoOffsetReset, Consumer, PartitionAssignmentStrategy};
use krafka::producer::Acks;
use krafka::{Compression, Kafka, Record};

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().collect();
    let kafka = Kafka::builder(given[1].clone()).allow_auto_create_topics(true).connect().await.expect("a cluster");
    if given.get(2).map(String::as_str) == Some("kill") {
        return kill(&kafka, &given[3], given[4].parse().unwrap()).await.expect("to produce");
    }
    let mut failed = 0;
    step("admin", &mut failed, admin(&kafka)).await;
    step("codecs", &mut failed, codecs(&kafka)).await;
    step("headers and tombstones", &mut failed, headers(&kafka)).await;
    step("large", &mut failed, large(&kafka)).await;
    step("auto creation", &mut failed, auto_creation(&kafka)).await;
    step("times", &mut failed, times(&kafka)).await;
    for strategy in [PartitionAssignmentStrategy::Range, PartitionAssignmentStrategy::CooperativeSticky] {
        step(&format!("group {strategy:?}"), &mut failed, group(&kafka, &given[1], strategy)).await;
    }
    std::process::exit(if failed == 0 { 0 } else { 1 });
}

async fn make_topic(kafka: &Kafka, name: &str, partitions: i32) -> Result<String, Error> {
    let topic = unique(name);
    for (_, result) in kafka.admin().create_topics([NewTopic::new(&topic, partitions, 3)?], Default::default()).await? {
        result?;
    }
    Ok(topic)
}

async fn produce(kafka: &Kafka, topic: &str, numbers: std::ops::Range<usize>, codec: Compression) -> Result<(), Error> {
    let producer = kafka.producer().acks(Acks::All).compression(codec).build().await?;
    let mut handles = Vec::new();
    for number in numbers {
        let record = Record::new(topic, format!("{number} {}", "x".repeat(100))).key(format!("key {number}"));
        handles.push(producer.enqueue(record).await?);
    }
    for handle in handles {
        let _ = handle.await?;
    }
    producer.close().await?;
    Ok(())
}

/// Polls all of them until the condition holds; the numbers that were read are added to `seen`.
async fn poll_until(
    consumers: &[&Consumer],
    seen: &mut BTreeSet<usize>,
    what: &str,
    mut done: impl AsyncFnMut(&BTreeSet<usize>) -> bool,
) -> Result<(), Error> {
    let deadline = now_ms() + 40_000;
    while !done(seen).await {
        expect(now_ms() < deadline, format!("{what} not in 40 s; {} seen", seen.len()))?;
        // Together: a member that joins waits in its poll for the others to do so.
        let polls = consumers.iter().map(|consumer| consumer.poll(Duration::from_millis(50)));
        for record in futures::future::try_join_all(polls).await?.into_iter().flatten() {
            let text = record.value_str().unwrap_or("").to_string();
            seen.insert(text.split(' ').next().unwrap().parse().unwrap_or(0));
        }
    }
    Ok(())
}

async fn owned(consumer: &Consumer) -> usize {
    consumer.assignment().await.values().map(Vec::len).sum()
}

// --- what is done ---------------------------------------------------------------------------------------------------------

async fn admin(kafka: &Kafka) -> Outcome {
    let admin = kafka.admin();
    let cluster = admin.describe_cluster(Default::default()).await?;
    expect(cluster.brokers.len() == 3, "three brokers")?;
    let topic = make_topic(kafka, "admin", 3).await?;
    for (_, described) in admin.describe_topics([&topic], Default::default()).await? {
        let partitions = described?.partitions;
        expect(partitions.len() == 3 && partitions[0].isr.len() == 3, "three partitions and copies")?;
    }
    expect(admin.list_topics(Default::default()).await?.contains(&topic), "listed")?;
    for (_, result) in admin.delete_topics([&topic], Default::default()).await? {
        result?;
    }
    Ok(format!("controller {}", cluster.controller_id))
}

async fn codecs(kafka: &Kafka) -> Outcome {
    for codec in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let topic = make_topic(kafka, "codec", 2).await?;
        produce(kafka, &topic, 0..1000, codec).await?;
        let consumer =
            kafka.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest).build().await?;
        consumer.assign(&topic, vec![0, 1]).await?;
        let mut seen = BTreeSet::new();
        poll_until(&[&consumer], &mut seen, &format!("{codec:?}"), async |seen| seen.len() == 1000).await?;
        consumer.close().await?;
    }
    Ok("none gzip snappy lz4 zstd, 1000 records each, idempotent".into())
}

async fn headers(kafka: &Kafka) -> Outcome {
    let topic = make_topic(kafka, "headers", 1).await?;
    let producer = kafka.producer().build().await?;
    let first = Record::new(&topic, "value").key("k").header("a", "1").header("a", "2").null_header("null");
    let stored = producer.send(first.timestamp(1_700_000_000_123)).await?;
    expect(stored.offset == 0, "the first")?;
    let _ = producer.send(Record::tombstone(&topic, "k")).await?;
    let consumer = kafka.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest).build().await?;
    consumer.assign(&topic, vec![0]).await?;
    let (first, second) = (consumer.recv().await?.unwrap(), consumer.recv().await?.unwrap());
    let told = format!("{:?}", first.headers);
    expect(first.timestamp == 1_700_000_000_123 && first.headers.len() == 3, &told)?;
    expect(second.value.is_none() && second.key.is_some(), "a tombstone")?;
    Ok("three headers, one null; a tombstone".into())
}

async fn large(kafka: &Kafka) -> Outcome {
    let topic = make_topic(kafka, "large", 1).await?;
    let producer = kafka.producer().max_request_size(2_000_000).build().await?;
    for _ in 0..3 {
        let _ = producer.send(Record::new(&topic, vec![7u8; 1_000_000])).await?;
    }
    let refused = producer.send(Record::new(&topic, vec![7u8; 1_500_000])).await;
    expect(refused.is_err(), "1.5 MB was taken")?;
    let consumer = kafka.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest).build().await?;
    consumer.assign(&topic, vec![0]).await?;
    for _ in 0..3 {
        expect(consumer.recv().await?.unwrap().value.unwrap().len() == 1_000_000, "whole")?;
    }
    Ok(format!("three of 1 MB; 1.5 MB is {}", refused.err().unwrap()))
}

async fn auto_creation(kafka: &Kafka) -> Outcome {
    let topic = unique("auto");
    let stored = kafka.producer().build().await?.send(Record::new(&topic, "value")).await?;
    Ok(format!("{}-{} at {}", stored.topic, stored.partition, stored.offset))
}

async fn times(kafka: &Kafka) -> Outcome {
    let topic = make_topic(kafka, "times", 1).await?;
    let base = now_ms() - 100_000;
    let producer = kafka.producer().build().await?;
    for n in 0..20 {
        let _ = producer.send(Record::new(&topic, n.to_string()).timestamp(base + n * 1000)).await?;
    }
    let consumer = kafka.consumer_without_group().build().await?;
    let found = consumer.offsets_for_times(&[(&topic, 0)], base + 5_500).await;
    expect(*found[&(topic.clone(), 0)].as_ref().unwrap() == 6, "by time")?;
    expect(consumer.fetch_watermarks(&topic, 0).await? == (0, 20), "low and high")?;
    Ok("by time, low and high watermark".into())
}

async fn group(kafka: &Kafka, bootstrap: &str, strategy: PartitionAssignmentStrategy) -> Outcome {
    let (topic, name) = (make_topic(kafka, "group", 6).await?, unique("group"));
    let join = async || {
        // A member has a connection of its own: on one, a heartbeat waits behind the other's JoinGroup, here as in Kafka.
        let own = Kafka::builder(bootstrap).connect().await?;
        let consumer = own
            .consumer(&name)
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .partition_assignment_strategy(strategy)
            .enable_auto_commit(false)
            .build()
            .await?;
        consumer.subscribe([&topic]).await?;
        Ok::<_, Error>(consumer)
    };
    produce(kafka, &topic, 0..600, Compression::None).await?;
    let mut seen = BTreeSet::new();
    let first = join().await?;
    poll_until(&[&first], &mut seen, "600", async |seen| seen.len() == 600).await?;
    first.commit().await?;
    let second = join().await?;
    let both = [&first, &second];
    poll_until(&both, &mut seen, "three each", async |_| owned(&first).await == 3 && owned(&second).await == 3).await?;
    produce(kafka, &topic, 600..1200, Compression::None).await?;
    poll_until(&both, &mut seen, "1200", async |seen| seen.len() == 1200).await?;
    first.commit().await?;
    second.commit().await?;
    second.close().await?;
    poll_until(&[&first], &mut seen, "six again", async |_| owned(&first).await == 6).await?;
    first.close().await?;
    produce(kafka, &topic, 1200..1300, Compression::None).await?;
    let (third, mut after) = (join().await?, BTreeSet::new());
    poll_until(&[&third], &mut after, "resumed", async |after| after.len() >= 100).await?;
    expect(after.len() == 100 && after.contains(&1200), "from where the group was")?;
    third.close().await?;
    Ok("6 = 3 + 3 = 6, resumed".into())
}

async fn kill(kafka: &Kafka, topic: &str, count: usize) -> Result<(), Error> {
    let producer = kafka.producer().acks(Acks::All).delivery_timeout(Duration::from_secs(60)).build().await?;
    let mut handles = Vec::new();
    for number in 0..count {
        let record = Record::new(topic, number.to_string()).key(format!("k{}", number % 7));
        handles.push(producer.enqueue(record).await?);
        if number % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if number == count / 4 {
            println!("a quarter");
        }
    }
    let (mut acked, mut failed) = (0, 0);
    for handle in handles {
        match handle.await {
            Ok(_) => acked += 1,
            Err(error) => {
                failed += 1;
                println!("failed: {error}");
            }
        }
    }
    println!("acked {acked} failed {failed}");
    Ok(())
}
