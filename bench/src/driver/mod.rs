//! The load driver: connections that ask again the moment they are answered.

mod answer;
mod connection;
mod paced;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Error;
use crate::statistics::Histogram;

pub(crate) use connection::{Connection, authorized, authorized_post, request};
pub(crate) use paced::PacedLoad;

/// The time limit in which every connection gets its last answer after the end of a load.
const GRACE: Duration = Duration::from_secs(60);

/// Requests that wait for their answers.
#[derive(Clone)]
pub(crate) struct Load {
    /// The address that they are sent to.
    pub(crate) address: SocketAddr,
    /// The bytes of each request. Every connection sends them in order, each with another first one.
    pub(crate) requests: Arc<[Arc<[u8]>]>,
    /// The number of concurrent requests.
    pub(crate) connections: usize,
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// The latency of each answer.
    pub(crate) times: Histogram,
    /// The total time.
    pub(crate) elapsed: Duration,
}

impl Answers {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let count = self.times.count() as f64;
        count / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Load {
    /// Keeps it up for `time`. An unsuccessful answer ends it, since the measurement would be invalid.
    pub(crate) async fn run(&self, time: Duration) -> Result<Answers, Error> {
        let open = self.connect().await?;
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for (first, connection) in open.into_iter().enumerate() {
            tasks.spawn(keep_asking(connection, self.requests_from(first), started + time));
        }
        self.answers(tasks, started, time, "did not answer for").await
    }

    /// The requests of a connection, without an end.
    fn requests_from(&self, connection: usize) -> impl Iterator<Item = Arc<[u8]>> + Send + use<> {
        let requests = self.requests.clone();
        let first = connection * requests.len() / self.connections.max(1);
        (0..requests.len()).cycle().skip(first).map(move |place| requests[place].clone())
    }

    /// Opens every connection, which is not part of the measurement.
    async fn connect(&self) -> Result<Vec<Connection>, Error> {
        let mut open = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            open.push(Connection::open(self.address).await?);
        }
        Ok(open)
    }

    /// The answers of all connections. `late` is the error message if they do not come in time.
    async fn answers(
        &self,
        mut tasks: JoinSet<Result<Histogram, Error>>,
        started: Instant,
        time: Duration,
        late: &str,
    ) -> Result<Answers, Error> {
        let all = async {
            let mut times = Histogram::default();
            while let Some(ended) = tasks.join_next().await {
                let ended = ended.map_err(|error| Error::Server(format!("the load driver: {error}")))?;
                times.merge(&ended?);
            }
            Ok::<Histogram, Error>(times)
        };
        let times = tokio::time::timeout(time + GRACE, all)
            .await
            .map_err(|_| Error::Server(format!("{} {late} {} s", self.address, GRACE.as_secs())))??;
        Ok(Answers { times, elapsed: started.elapsed() })
    }
}

/// Asks, and takes nothing but a status of success for an answer.
async fn ask(connection: &mut Connection, request: &[u8]) -> Result<(), Error> {
    let answer = connection.ask(request).await?;
    if !(200..300).contains(&answer.status) {
        let text = String::from_utf8_lossy(answer.body).into_owned();
        return Err(Error::Server(format!("an answer of status {}: {text}", answer.status)));
    }
    Ok(())
}

async fn keep_asking(
    mut connection: Connection,
    mut requests: impl Iterator<Item = Arc<[u8]>>,
    until: Instant,
) -> Result<Histogram, Error> {
    let mut times = Histogram::default();
    let mut asked = Instant::now();
    while asked < until
        && let Some(request) = requests.next()
    {
        ask(&mut connection, &request).await?;
        // The end of one is the beginning of the next: one look at the clock for both.
        let answered = Instant::now();
        times.add(answered - asked);
        asked = answered;
    }
    Ok(times)
}
