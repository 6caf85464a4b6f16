//! Encoding of the origin of an execution, with the trigger that started it, in the column `origin`. An execution of the trigger `main`
//! has the origin alone.

use model::Origin;
use model::automation::TriggerId;
use serde::{Deserialize, Serialize};

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
}
