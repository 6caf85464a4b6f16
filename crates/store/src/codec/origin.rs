//! Encoding of the origin of an execution, with the trigger that started it, in the column `origin`. An execution of the trigger `main`
//! has the origin alone.

use model::automation::TriggerId;
use model::{ExecutionId, Origin};
use serde::{Deserialize, Serialize};

/// The index of the byte of a UUID that begins with its version.
const VERSION: usize = 6;

/// A trigger other than `main`, beside the keys of the origin.
#[derive(Deserialize)]
struct Beside {
    trigger: TriggerId,
}

#[derive(Serialize)]
struct Encoded<'start> {
    #[serde(flatten)]
    origin: &'start Origin,
    trigger: &'start TriggerId,
}

/// Encodes an origin with its trigger.
pub(super) fn encode(origin: &Origin, trigger: &TriggerId) -> serde_json::Result<String> {
    match trigger.is_main() {
        true => serde_json::to_string(origin),
        false => serde_json::to_string(&Encoded { origin, trigger }),
    }
}

/// Encodes the execution that led to one with this origin, in the indexed column `replay_of`: the execution that it replays, or, as
/// [`sender_key`], the one whose event started it. `None` for other origins.
#[must_use]
pub fn cause_key(origin: &Origin) -> Option<ExecutionId> {
    origin.replay_of().or_else(|| origin.sender().map(sender_key))
}

/// Encodes the sender of an event as the cause of executions that the event started: its id with the four bits of the version
/// inverted. All ids of executions have version 7, so the key is the id of none of them.
#[must_use]
pub fn sender_key(sender: ExecutionId) -> ExecutionId {
    let mut bytes = *sender.as_bytes();
    bytes[VERSION] ^= 0xf0;
    ExecutionId::from_bytes(bytes)
}

/// Decodes an origin and its trigger.
pub fn decode(text: &[u8]) -> serde_json::Result<(Origin, TriggerId)> {
    let origin = serde_json::from_slice(text)?;
    // Parsed again only if the key can be there.
    let key = br#""trigger""#;
    let has_key = text.windows(key.len()).any(|part| part == key);
    let beside = has_key.then(|| serde_json::from_slice::<Beside>(text)).transpose()?;
    Ok((origin, beside.map(|beside| beside.trigger).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_keeps_its_trigger() {
        let paid = TriggerId::parse("paid").expect("an id");
        for trigger in [TriggerId::MAIN, paid] {
            for origin in [Origin::Webhook, Origin::Schedule { instant: jiff::Timestamp::UNIX_EPOCH }] {
                let text = encode(&origin, &trigger).expect("it is encoded");
                assert_eq!(text.contains("trigger"), !trigger.is_main(), "{text}");
                assert_eq!(decode(text.as_bytes()).expect("it is decoded"), (origin, trigger.clone()));
            }
        }
    }

    #[test]
    fn a_sender_and_a_replayed_execution_are_different_causes() {
        let id: ExecutionId = "019a2b3c-4d5e-7f60-8123-456789abcdef".parse().expect("an id");
        let replay = Origin::Replay { of: id, from: None, kept: 0, test: false };
        let event = ("paid".to_owned(), "a.b".to_owned());
        let emitted = |sender| Origin::Emitted {
            event: event.0.clone(),
            id: event.1.clone(),
            sender,
            step: None,
            test: false,
            trace: None,
        };
        assert_eq!(cause_key(&replay), Some(id));
        assert_eq!(cause_key(&emitted(Some(id))), Some(sender_key(id)));
        assert_ne!(sender_key(id), id);
        assert_eq!(sender_key(sender_key(id)), id);
        for origin in [emitted(None), Origin::Manual] {
            assert_eq!(cause_key(&origin), None);
        }
    }
}
