//! What the programs share: steps that are told one by one, and names that no other run has.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub type Outcome = Result<String, Box<dyn std::error::Error>>;

/// A name that no other run uses.
pub fn unique(name: &str) -> String {
    format!("rust-{name}-{}", now_ms() % 1_000_000_000)
}

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

pub async fn step(name: &str, failed: &mut usize, work: impl Future<Output = Outcome>) {
    let began = Instant::now();
    let outcome = match tokio::time::timeout(Duration::from_secs(60), work).await {
        Ok(outcome) => outcome,
        Err(_) => Err("not in 60 s".into()),
    };
    match outcome {
        Ok(seen) => println!("ok      {name:<24} {:5} ms  {seen}", began.elapsed().as_millis()),
        Err(error) => {
            *failed += 1;
            println!("FAILED  {name:<24} {error:?}");
        }
    }
}

pub fn expect(holds: bool, what: impl Into<String>) -> Result<(), Box<dyn std::error::Error>> {
    if holds { Ok(()) } else { Err(what.into().into()) }
}
