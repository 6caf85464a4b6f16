//! Messages of a RabbitMQ server of this machine, published by steps and taken by a source, beside a plain client: the difference is
//! Cogwork's.

use std::time::{Duration, Instant};

use connector::{EventSource, Fate, SourceOptions, TakeLimits, check_event_inputs};
use servers::rabbitmq::{PASSWORD, Server, USER};
use value::{Map, Value};

use super::Terms;
use super::ours::{Ours, Silent};
use crate::Error;
use crate::report::{Report, Row, Unit};
use crate::statistics::median;

/// The number of rounds of each.
const ROUNDS: usize = 5;
/// The messages of a round that are published, each confirmed before the next.
const PUBLISHED: u32 = 1_000;
/// The messages of a round that are taken.
const TAKEN: u32 = 10_000;
/// The messages that are taken and acknowledged at a time.
const BATCH: usize = 100;
const QUEUE: &str = "rows";
const BODY: &str = "{\"id\": 17, \"items\": [{\"price\": 4}, {\"price\": 5}]}";

/// Measures publishing, and taking with acknowledgements. Nothing without a server.
pub(super) async fn measure(_: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let Some(server) = Server::start() else { return Ok(()) };
    let mut plain = server.client();
    plain.create_queue(QUEUE);
    let with = Map::from_iter([
        ("host", Value::from("127.0.0.1")),
        ("port", Value::from(server.port)),
        ("tls", Value::from("none")),
        ("user", Value::from(USER)),
        ("password", Value::from(PASSWORD)),
    ]);
    let ours = Ours::new(server.folder(), "amqp.server", &with)?;
    let (mut published, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..PUBLISHED {
            let inputs = [("routingKey", Value::from(QUEUE)), ("body", Value::from(BODY))];
            ours.call("amqp.publish", inputs).await?;
        }
        let with_step = began.elapsed().as_secs_f64();
        let began = Instant::now();
        for _ in 0..PUBLISHED {
            plain.publish(QUEUE, BODY.as_bytes(), Some("id"));
        }
        published.push((with_step, began.elapsed().as_secs_f64()));
        plain.take(QUEUE, 2 * PUBLISHED as usize, BATCH);
        fill(&mut plain);
        let began = Instant::now();
        take(&ours).await?;
        let with_source = began.elapsed().as_secs_f64();
        fill(&mut plain);
        let began = Instant::now();
        plain.take(QUEUE, TAKEN as usize, BATCH);
        taken.push((with_source, began.elapsed().as_secs_f64()));
    }
    for (name, count, times) in [
        ("messages published to RabbitMQ", PUBLISHED, published),
        ("messages taken from RabbitMQ", TAKEN, taken),
    ] {
        let per_second = |time: f64| f64::from(count) / time;
        let ratio = median(times.iter().map(|(ours, plain)| plain / ours));
        let rate = per_second(median(times.iter().map(|(ours, _)| *ours)));
        let plain = per_second(median(times.iter().map(|(_, plain)| *plain)));
        let row = Row::new("messages", name.to_owned(), rate, Unit::PerSecond);
        report.add(row.beside("a plain client", plain, ratio));
    }
    Ok(())
}

fn fill(plain: &mut servers::rabbitmq::Client) {
    plain.publish_all(QUEUE, BODY.as_bytes(), TAKEN as usize);
}

/// Takes all messages of a round as a trigger does, without executions.
async fn take(ours: &Ours<'_>) -> Result<(), Error> {
    let failed = |error: model::ActionError| Error::Server(error.into_message());
    let event = ours.registry.event("amqp.message");
    let event = event.ok_or_else(|| Error::Server("there is no amqp.message".to_owned()))?;
    let EventSource::Stream(stream) = &event.source else {
        return Err(Error::Server("no broker brings amqp.message".to_owned()));
    };
    let inputs = Map::from_iter([("queue", Value::from(QUEUE))]);
    let inputs = check_event_inputs(&event.name, &event.inputs, &inputs).map_err(failed)?;
    let options = SourceOptions {
        http: &ours.http,
        connection: &ours.connection,
        inputs: &inputs,
        from_oldest: false,
        prefetch: 2 * BATCH,
        log: &Silent,
    };
    let mut source = stream.broker.open(options).await.map_err(failed)?;
    let mut left = TAKEN as usize;
    while left > 0 {
        if !source.wait(Duration::from_secs(10)).await.map_err(failed)? {
            return Err(Error::Server("a message is missing".to_owned()));
        }
        let limits = TakeLimits { messages: BATCH, bytes: 8 << 20, fill: Duration::ZERO };
        let messages = source.take(limits).await.map_err(failed)?;
        left = left.saturating_sub(messages.len());
        let done = messages.iter().map(|message| (message.token, Fate::Done)).collect();
        source.settle(done).await.map_err(failed)?;
    }
    Ok(())
}
