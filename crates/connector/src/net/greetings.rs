//! The greetings of servers at which a login failed, remembered for a minute.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::OnceCell;

/// The time for which a greeting is remembered: a server that fails each step is asked once in this time.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The largest number of servers whose greetings are remembered.
const MAX_SERVERS: usize = 256;

/// The behaviour of a server at a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It greets in this protocol. `tls` is true if it then wants TLS, or takes it; `None` if its greeting does not tell.
    Protocol {
        /// The name of the protocol.
        name: &'static str,
        /// True if it then wants TLS, or takes it.
        tls: Option<bool>,
    },
    /// It waits for the client, and takes TLS.
    Tls,
    /// It waits for the client, and takes no TLS.
    NoTls,
    /// It sends nothing.
    NoAnswer,
}

/// The greetings of servers at which a login failed.
#[derive(Default)]
pub(crate) struct Greetings(Mutex<HashMap<(SocketAddr, String), Remembered>>);

struct Remembered {
    since: Timestamp,
    /// Is empty while the first call that needs it asks the server, for which the others wait.
    greeting: Arc<OnceCell<Option<Greeting>>>,
}

impl Remembered {
    fn is_good(&self, now: Timestamp) -> bool {
        Duration::try_from(now.duration_since(self.since)).is_ok_and(|age| age < MAX_AGE)
    }
}

impl Greetings {
    /// Returns the greeting of a server that is remembered at this time, else the result of `ask`.
    pub(super) async fn get(
        &self,
        server: (SocketAddr, &str),
        now: Timestamp,
        ask: impl Future<Output = Option<Greeting>>,
    ) -> Option<Greeting> {
        let greeting = self.remembered((server.0, server.1.to_owned()), now)?;
        *greeting.get_or_init(|| ask).await
    }

    /// `None` if too many servers are remembered.
    fn remembered(
        &self,
        server: (SocketAddr, String),
        now: Timestamp,
    ) -> Option<Arc<OnceCell<Option<Greeting>>>> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.get(&server).filter(|known| known.is_good(now)) {
            return Some(known.greeting.clone());
        }
        servers.retain(|_, known| known.is_good(now));
        if servers.len() >= MAX_SERVERS {
            return None;
        }
        let greeting = Arc::<OnceCell<_>>::default();
        servers.insert(server, Remembered { since: now, greeting: greeting.clone() });
        Some(greeting)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn a_server_is_asked_once_in_a_minute_by_all_calls_together() {
        let (greetings, asked) = (Greetings::default(), std::cell::Cell::new(0));
        let start: Timestamp = "2026-01-31T08:00:00Z".parse().expect("an instant");
        let get = async |port: u16, host: &'static str, seconds: i64, found: Option<Greeting>| {
            let ask = async {
                asked.set(asked.get() + 1);
                tokio::task::yield_now().await;
                found
            };
            let now = start + jiff::SignedDuration::from_secs(seconds);
            greetings.get((([127, 0, 0, 1], port).into(), host), now, ask).await
        };
        let (one, other) = (Some(Greeting::NoTls), Some(Greeting::Tls));
        let both = tokio::join!(get(1, "a", 0, one), get(1, "a", 0, other));
        assert_eq!((both, asked.get()), ((one, one), 1), "at the same time");
        assert_eq!((get(1, "a", 59, other).await, asked.get()), (one, 1), "later");
        assert_eq!((get(1, "a", 60, None).await, asked.get()), (None, 2), "after a minute");
        assert_eq!((get(1, "a", 61, other).await, asked.get()), (None, 2), "also if it is not reached");
        assert_eq!((get(2, "a", 61, other).await, asked.get()), (other, 3), "another port");
        assert_eq!((get(1, "b", 61, other).await, asked.get()), (other, 4), "another name");
        // A call that is cut off leaves the question to the next one.
        tokio::select! {
            biased;
            found = get(3, "a", 61, one) => panic!("it is not cut off: {found:?}"),
            () = std::future::ready(()) => {}
        }
        assert_eq!((get(3, "a", 61, other).await, asked.get()), (other, 6));
        for port in 4..1000 {
            get(port, "a", 61, one).await;
        }
        assert_eq!(greetings.0.lock().expect("not poisoned").len(), MAX_SERVERS);
        get(1, "a", 200, one).await;
        assert_eq!(greetings.0.lock().expect("not poisoned").len(), 1);
    }
}
