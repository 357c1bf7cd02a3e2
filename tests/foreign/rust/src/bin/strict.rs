//! kafka-protocol as a judge: reads lines "api version hex of an answer" and decodes each to its last byte.

use std::collections::BTreeMap;
use std::io::BufRead;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::{ApiKey, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::Decodable;

fn main() {
    let (mut good, mut bad) = (0, 0);
    let mut unknown: BTreeMap<(i16, i16), usize> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let (key, version): (i16, i16) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let answer: Vec<u8> = (0..words[2].len() / 2).map(|n| u8::from_str_radix(&words[2][2 * n..2 * n + 2], 16).unwrap()).collect();
        let known = ApiKey::try_from(key).ok().filter(|api| {
            let range = api.valid_versions();
            (range.min..=range.max).contains(&version)
        });
        let Some(api) = known else {
            *unknown.entry((key, version)).or_default() += 1;
            continue;
        };
        let mut bytes = Bytes::from(answer);
        let read = ResponseHeader::decode(&mut bytes, api.response_header_version(version))
            .and_then(|_| ResponseKind::decode(api, &mut bytes, version));
        match read {
            Ok(_) if bytes.remaining() == 0 => good += 1,
            Ok(told) => {
                bad += 1;
                println!("FAILED  {api:?} {version}: {} bytes left over behind {told:?}", bytes.remaining());
            }
            Err(error) => {
                bad += 1;
                println!("FAILED  {api:?} {version}: {error}: {}", words[2]);
            }
        }
    }
    println!("{} {good} answers read to their last byte, {bad} not; not known to kafka-protocol: {unknown:?}", if bad == 0 { "ok    " } else { "FAILED" });
    std::process::exit(if bad == 0 { 0 } else { 1 });
}
