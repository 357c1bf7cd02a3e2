//! rskafka: one partition at a time, no groups. rskafka BOOTSTRAP all, or kill TOPIC COUNT.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{TimeZone, Utc};
use foreign::{Outcome, expect, now_ms, step, unique};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().collect();
    let bootstrap: Vec<String> = given[1].split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(bootstrap).build().await.expect("a client");
    if given.get(2).map(String::as_str) == Some("kill") {
        return kill(&client, &given[3], given[4].parse().unwrap()).await;
    }
    let mut failed = 0;
    step("topics", &mut failed, topics(&client)).await;
    step("codecs", &mut failed, codecs(&client)).await;
    step("headers and tombstones", &mut failed, headers(&client)).await;
    step("large", &mut failed, large(&client)).await;
    step("times and deletion", &mut failed, times(&client)).await;
    std::process::exit(if failed == 0 { 0 } else { 1 });
}

fn record(key: Option<&str>, value: Option<Vec<u8>>, at_ms: i64) -> Record {
    Record {
        key: key.map(|key| key.as_bytes().to_vec()),
        value,
        headers: BTreeMap::new(),
        timestamp: Utc.timestamp_millis_opt(at_ms).unwrap(),
    }
}

async fn open(client: &Client, name: &str) -> Result<Arc<PartitionClient>, Box<dyn std::error::Error>> {
    let topic = unique(name);
    client.controller_client()?.create_topic(&topic, 2, 3, 5_000).await?;
    Ok(Arc::new(client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?))
}

async fn read(partition: &PartitionClient, count: usize) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let mut found = Vec::new();
    let mut offset = partition.get_offset(OffsetAt::Earliest).await?;
    while found.len() < count {
        let (records, _) = partition.fetch_records(offset, 1..3_000_000, 1_000).await?;
        for one in records {
            offset = one.offset + 1;
            found.push(one.record);
        }
    }
    Ok(found)
}

async fn topics(client: &Client) -> Outcome {
    let name = unique("topics");
    let controller = client.controller_client()?;
    controller.create_topic(&name, 3, 3, 5_000).await?;
    expect(controller.create_topic(&name, 3, 3, 5_000).await.is_err(), "created twice")?;
    let listed = client.list_topics().await?;
    let found = listed.iter().find(|topic| topic.name == name);
    expect(found.is_some_and(|topic| topic.partitions.len() == 3), "listed with its partitions")?;
    controller.delete_topic(&name, 5_000).await?;
    Ok(format!("{} topics", listed.len()))
}

async fn codecs(client: &Client) -> Outcome {
    for codec in
        [Compression::NoCompression, Compression::Gzip, Compression::Lz4, Compression::Snappy, Compression::Zstd]
    {
        let partition = open(client, "codec").await?;
        for from in [0, 100] {
            let records = (from..from + 100).map(|n| record(Some("k"), Some(vec![n as u8; 300]), now_ms())).collect();
            let offsets = partition.produce(records, codec).await?;
            expect(offsets == (from..from + 100).collect::<Vec<i64>>(), format!("{codec:?}: {offsets:?}"))?;
        }
        let found = read(&partition, 200).await?;
        expect(found[199].value == Some(vec![199; 300]), format!("{codec:?}: in order"))?;
    }
    Ok("none gzip lz4 snappy zstd, 200 records each".into())
}

async fn headers(client: &Client) -> Outcome {
    let partition = open(client, "headers").await?;
    let mut first = record(Some("k"), Some(b"v".to_vec()), 1_700_000_000_123);
    first.headers.insert("a".into(), b"1".to_vec());
    first.headers.insert("empty".into(), vec![]);
    let sent = vec![first, record(Some("k"), None, now_ms()), record(None, Some(vec![]), now_ms())];
    partition.produce(sent.clone(), Compression::NoCompression).await?;
    expect(read(&partition, 3).await? == sent, "what was sent")?;
    Ok("headers, a tombstone, an empty value".into())
}

async fn large(client: &Client) -> Outcome {
    let partition = open(client, "large").await?;
    let sent = record(None, Some(vec![7; 1_000_000]), now_ms());
    for _ in 0..3 {
        partition.produce(vec![sent.clone()], Compression::NoCompression).await?;
    }
    expect(read(&partition, 3).await?.iter().all(|one| *one == sent), "whole")?;
    let too_large = record(None, Some(vec![7; 1_500_000]), now_ms());
    let refused = partition.produce(vec![too_large], Compression::NoCompression).await;
    expect(format!("{refused:?}").contains("MessageTooLarge"), format!("{refused:?}"))?;
    Ok("three of 1 MB; 1.5 MB is MessageTooLarge".into())
}

async fn times(client: &Client) -> Outcome {
    let partition = open(client, "times").await?;
    let base = now_ms() - 100_000;
    for n in 0..20 {
        partition.produce(vec![record(None, Some(vec![n as u8]), base + n * 1000)], Compression::NoCompression).await?;
    }
    let at = OffsetAt::Timestamp(Utc.timestamp_millis_opt(base + 5_500).unwrap());
    expect(partition.get_offset(at).await? == 6, "by time")?;
    expect(partition.get_offset(OffsetAt::Latest).await? == 20, "latest")?;
    partition.delete_records(4, 5_000).await?;
    expect(partition.get_offset(OffsetAt::Earliest).await? == 4, "deleted")?;
    Ok("by time, latest, earliest after a deletion".into())
}

async fn kill(client: &Client, topic: &str, count: usize) {
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await.expect("a partition");
    let (mut acked, mut failed) = (0, 0);
    for n in 0..count {
        let one = record(Some("k"), Some(n.to_string().into_bytes()), now_ms());
        match partition.produce(vec![one], Compression::NoCompression).await {
            Ok(_) => acked += 1,
            Err(error) => {
                failed += 1;
                println!("failed: {error}");
            }
        }
        if acked == count / 4 {
            println!("a quarter");
        }
    }
    println!("acked {acked} failed {failed}");
}
