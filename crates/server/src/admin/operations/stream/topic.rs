//! Topics that a stream can follow.

use model::{AutomationId, ExecutionId};

use crate::admin::Problem;

/// Maximum number of topics of one stream.
const MOST: usize = 32;

/// A topic of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Another snapshot of the project is in force.
    Catalog,
    /// Executions begin, go on and end.
    Executions,
    /// One execution goes on.
    Execution(ExecutionId),
    /// A listening session of an automation changes: a capture, its end.
    Listen(AutomationId),
    /// Polls are made.
    Polls,
    /// Subscriptions at other applications are made and taken back, or that fails.
    Subscriptions,
    /// The health of connections changes.
    Connections,
    /// An operation on many executions goes on. Its id has the form of an execution's.
    Bulk(ExecutionId),
}

impl Topic {
    /// Reads topics with commas between them.
    ///
    /// # Errors
    /// There is none, one is unknown, or there are too many.
    pub(super) fn parse_list(text: &str) -> Result<Vec<Self>, Problem> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let topics = words
            .map(|word| Self::parse(word).ok_or_else(|| unknown(word)))
            .collect::<Result<Vec<_>, _>>()?;
        match topics.len() {
            0 => Err(Problem::bad_request(
                "bad_topic",
                "name the topics in `topics`, with commas between them",
            )),
            count if count > MOST => {
                Err(Problem::bad_request("bad_topic", format!("a stream has at most {MOST} topics")))
            }
            _ => Ok(topics),
        }
    }

    fn parse(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "catalog" => Some(Self::Catalog),
            None if word == "executions" => Some(Self::Executions),
            None if word == "polls" => Some(Self::Polls),
            None if word == "subscriptions" => Some(Self::Subscriptions),
            None if word == "connections" => Some(Self::Connections),
            Some(("execution", id)) => id.parse().ok().map(Self::Execution),
            Some(("bulk", id)) => id.parse().ok().map(Self::Bulk),
            Some(("listen", id)) => AutomationId::parse(id).map(Self::Listen),
            _ => None,
        }
    }
}

fn unknown(word: &str) -> Problem {
    let detail = format!(
        "`{word}` is no topic; use `catalog`, `executions`, `execution:ID`, `listen:AUTOMATION`, `bulk:ID`, `polls`, `subscriptions` or `connections`"
    );
    Problem::bad_request("bad_topic", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_parsed_and_unknown_ones_rejected() {
        let id = ExecutionId::from_bytes([7; 16]);
        let found = Topic::parse_list(&format!("catalog, execution:{id},listen:a,bulk:{id},subscriptions"))
            .expect("topics");
        let listen = Topic::Listen(AutomationId::parse("a").expect("an id"));
        assert_eq!(
            found,
            [Topic::Catalog, Topic::Execution(id), listen, Topic::Bulk(id), Topic::Subscriptions]
        );
        assert_eq!(Topic::parse_list(&"polls,".repeat(MOST)).map(|topics| topics.len()).ok(), Some(MOST));
        let many = "polls,".repeat(MOST + 1);
        for wrong in [
            "",
            " , ",
            "catalogue",
            "execution:x",
            "execution",
            "polls:a",
            "bulk:",
            "bulk:a b",
            many.as_str(),
        ] {
            assert!(Topic::parse_list(wrong).is_err(), "{wrong}");
        }
    }
}
