//! GraphQL: the operations `Spaces` and `SpaceByKey`, found by name. Any other is 200 with `errors`.

use serde_json::{Value, json};

use super::call::{ApiError, Call, Reply, reject_if};
use super::model::{Kind, State};

impl State {
    pub(super) fn graphql(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let body = call.json()?;
        let query = body["query"].as_str().unwrap_or_default();
        reject_if(query.is_empty(), 400, "'query' must be a string")?;
        let variables = &body["variables"];
        reject_if(!variables.is_null() && !variables.is_object(), 400, "'variables' must be an object")?;
        let name = body["operationName"].as_str().or_else(|| operation_name(query));
        let mut spaces = self.spaces();
        let data = match (name, variables["key"].as_str()) {
            (Some("Spaces"), _) => Ok(json!({"spaces": spaces})),
            (Some("SpaceByKey"), Some(key)) => {
                spaces.retain(|space| space["key"] == key);
                Ok(json!({"spaceByKey": spaces.pop()}))
            }
            (Some("SpaceByKey"), None) => Err(("the variable `key` must be a string", "BAD_USER_INPUT")),
            _ => Err(("the operation is unknown", "OPERATION_NOT_FOUND")),
        };
        Ok(Reply::ok(&match data {
            Ok(data) => json!({"data": data}),
            Err((message, classification)) => {
                let extensions = json!({"statusCode": 400, "classification": classification});
                json!({"data": null, "errors": [{"message": message, "extensions": extensions}]})
            }
        }))
    }

    fn spaces(&self) -> Vec<Value> {
        let shape = |space: &super::model::Content| {
            let pages = self.of_kind(Kind::Page).filter(|page| page.space == space.id).count();
            let (id, homepage) = (space.id.to_string(), space.homepage.to_string());
            json!({"id": id, "key": space.key, "name": space.title(), "homepageId": homepage, "pageCount": pages})
        };
        self.of_kind(Kind::Space).map(shape).collect()
    }
}

/// The name of the first operation of a document.
fn operation_name(query: &str) -> Option<&str> {
    let (keyword, rest) = query.trim_start().split_once(char::is_whitespace)?;
    let rest =
        Some(rest.trim_start()).filter(|_| matches!(keyword, "query" | "mutation" | "subscription"))?;
    rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().filter(|name| !name.is_empty())
}
