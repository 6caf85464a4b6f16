//! The memory that a request asks for.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pretty_assertions::assert_eq;

use super::*;

/// Notes what a request asks for.
#[derive(Default)]
struct Asked(std::sync::Mutex<Vec<(&'static str, usize)>>);

#[async_trait::async_trait]
impl AnswerMemory for Asked {
    async fn arriving(&self, bytes: usize) {
        self.0.lock().expect("not poisoned").push(("arriving", bytes >> 10));
    }

    async fn arrived(&self, memory: usize) {
        self.0.lock().expect("not poisoned").push(("arrived", memory >> 10));
    }
}

#[tokio::test]
async fn memory_is_reserved_while_a_large_response_arrives_and_before_it_is_parsed() {
    let zeros = |count: usize| vec![b'0'; count << 10];
    let packed = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &zeros(3 << 10)).expect("written");
        encoder.finish().expect("finished")
    };
    let server = Server::start(move |count, _| match count {
        0 => reply("200 OK", &zeros(60)),
        1 => reply("200 OK", &[zeros(600), vec![b','; 100 << 10]].concat()),
        _ => reply("200 OK\r\ncontent-encoding: gzip", &packed),
    })
    .await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let asked = Asked::default();
        let lines = Lines::default();
        let context = RequestContext { answers: &asked, ..context(&lines) };
        http(local()).send(&request(Method::GET, &server.url("/")), &context).await.expect("an answer");
        seen.push(asked.0.into_inner().expect("not poisoned"));
    }
    assert_eq!(seen[0], []);
    assert_eq!(seen[1], [("arriving", 700), ("arrived", 700 + 4800)]);
    let growing = [128, 256, 512, 1024, 2048, 4096].map(|size| ("arriving", size));
    assert_eq!(seen[2], [&growing[..], &[("arrived", 3 << 10)]].concat(), "the length is not known before");
}

/// Waits a millisecond more until each of some looks.
#[derive(Default)]
struct Waiting {
    looks: AtomicU64,
    until: u64,
}

#[async_trait::async_trait]
impl AnswerMemory for Waiting {
    async fn arriving(&self, _: usize) {}

    async fn arrived(&self, _: usize) {}

    fn waited(&self) -> Duration {
        Duration::from_millis(self.looks.fetch_add(1, Relaxed).min(self.until))
    }
}

#[tokio::test]
async fn waiting_for_memory_does_not_count_towards_the_request_timeout() {
    for (until, expected) in [(0, false), (2, false), (3, true), (9, true)] {
        let waiting = Waiting { until, ..Waiting::default() };
        // Ends when its memory was looked at for the fourth time.
        let request = std::future::poll_fn(|_| match waiting.looks.load(Relaxed) {
            0..=3 => std::task::Poll::Pending,
            _ => std::task::Poll::Ready(()),
        });
        assert_eq!(within(Duration::from_millis(1), &waiting, request).await.is_some(), expected, "{until}");
    }
}
