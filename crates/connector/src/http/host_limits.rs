//! A limit on concurrent requests per host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::{Position, Url};

/// Above this number of hosts, semaphores without users are removed.
const MAX_HOSTS: usize = 1024;

pub(crate) struct HostLimits {
    per_host: usize,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl HostLimits {
    pub(super) fn new(per_host: usize) -> Self {
        Self { per_host: per_host.max(1), hosts: Mutex::default() }
    }

    /// Waits for a permit of the URL's host and port. Dropping the permit releases it.
    pub(crate) async fn acquire(&self, url: &Url) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so acquiring always succeeds.
        self.semaphore(url).acquire_owned().await.ok()
    }

    fn semaphore(&self, url: &Url) -> Arc<Semaphore> {
        let key = origin(url);
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = hosts.get(&key).and_then(Weak::upgrade) {
            return semaphore;
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let semaphore = Arc::new(Semaphore::new(self.per_host));
        hosts.insert(key, Arc::downgrade(&semaphore));
        semaphore
    }
}

/// Returns scheme, host and port. Without credentials they stand in the text of the URL, which costs less than to format them.
pub(super) fn origin(url: &Url) -> String {
    match url.username().is_empty() && url.password().is_none() {
        true => url[..Position::BeforePath].to_owned(),
        false => url.origin().ascii_serialization(),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn an_origin_is_scheme_host_and_port_whatever_else_the_address_has() {
        for (text, expected) in [
            ("http://a.example:80/x?y=http://b#c", "http://a.example"),
            ("https://[::1]:8443", "https://[::1]:8443"),
            ("http://ada:pw@127.0.0.1:81/x", "http://127.0.0.1:81"),
            ("http://bücher.example", "http://xn--bcher-kva.example"),
        ] {
            assert_eq!(origin(&url(text)), expected);
            assert_eq!(url(text).origin().ascii_serialization(), expected);
        }
    }

    #[tokio::test]
    async fn each_host_has_its_own_concurrency_slots_and_frees_them() {
        let host_limits = HostLimits::new(crate::http::HttpOptions::default().per_host);
        let mut slots = Vec::new();
        for _ in 0..16 {
            slots.push(host_limits.acquire(&url("http://a.example/x")).await);
        }
        let same = url("http://a.example:80/y");
        let mut next = Box::pin(host_limits.acquire(&same));
        assert!(matches!(futures_util::poll!(&mut next), Poll::Pending));
        assert!(host_limits.acquire(&url("http://b.example/")).await.is_some());
        drop(slots.pop());
        assert!(next.await.is_some());
    }

    #[tokio::test]
    async fn idle_hosts_are_forgotten() {
        let host_limits = HostLimits::new(1);
        for number in 0..3 * MAX_HOSTS {
            drop(host_limits.acquire(&url(&format!("http://h{number}.example/"))).await);
        }
        assert!(host_limits.hosts.lock().expect("not poisoned").len() <= MAX_HOSTS + 1);
    }
}
