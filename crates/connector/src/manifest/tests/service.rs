//! Tests of what a manifest says about its service: refusals, credentials, keys of calls, limits, GraphQL.

use std::sync::Arc;

use model::ErrorKind;
use pretty_assertions::assert_eq;

use super::*;
use crate::connection::ResolvedConnection;
use crate::http::HttpOptions;
use crate::http::testing::{ServerReply, Waits};
use crate::stages::{Progress, Reached};

/// Returns a manifest with these keys and actions, whose connection has this `auth`.
pub(super) fn manifest_with(keys: &str, auth: &str, actions: &str) -> String {
    format!(
        "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
connections:
  key:
    title: Key
    inputs:
      key: {{type: text, required: true, secret: true}}
      other: {{type: text, secret: true}}
      team: {{type: text}}
    auth: {auth}
inputs:
  id: {{type: text}}
  cursor: {{type: text}}
  limit: {{type: integer, min: 1, max: 100}}
  items: {{type: list, items: any}}
{keys}actions:
{actions}"
    )
}

/// The double of a service with the manifest that calls it.
pub(super) struct Double {
    server: Server,
    manifest: Manifest,
    connection: ResolvedConnection,
    http: crate::http::Http,
    log: Lines,
}

impl Double {
    pub(super) async fn start(
        text: &str,
        respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static,
    ) -> Self {
        let server = Server::start(respond).await;
        let (manifest, errors) = read_text(&text.replace("https://shop.example/v1", &server.url("/v1")));
        let manifest = manifest.unwrap_or_else(|| panic!("{errors}"));
        let inputs: Map = [("key", "k-secret&1"), ("other", "o-secret"), ("team", "")].into_iter().collect();
        let connection = manifest.connections[0].resolve("mine", &inputs).expect("it resolves");
        let http = testing::http(HttpOptions { timer: Arc::new(Waits::default()), ..testing::local() });
        Self { server, manifest, connection, http, log: Lines::default() }
    }

    pub(super) async fn call(&self, inputs: &str) -> Result<Value, ActionError> {
        let action = &self.manifest.actions[0];
        let inputs = Value::from_json(inputs.as_bytes(), value::JsonLimits::default()).expect("JSON");
        let inputs =
            check_inputs(action.spec(), inputs.as_map().expect("a map"), &value::Reserved::nothing())?;
        let call = testing::call(&self.http, &inputs, Some(&self.connection), &self.log);
        action.call(crate::action::Call { debug: true, ..call }).await
    }

    /// Goes on with a call of a file in stages, from a checkpoint with this location at the service.
    pub(super) async fn send_file(&self, file: value::File, path: &str) -> Result<Progress, ActionError> {
        let action = &self.manifest.actions[0];
        let inputs = Map::from_iter([("file", Value::from(file))]);
        let call = testing::call(&self.http, &inputs, Some(&self.connection), &self.log);
        let data = Value::from(Map::from_iter([("location", Value::from(self.server.url(path)))]));
        let reached = Reached { data: &data, age: std::time::Duration::ZERO };
        action.advance(call, Some(reached)).await
    }

    /// Returns the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.server.requests()
    }

    /// Returns the request lines so far.
    fn lines(&self) -> Vec<String> {
        let requests = self.server.requests();
        let line = |request: &String| request.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
        requests.iter().map(line).collect()
    }

    /// Returns the body of the last request.
    fn body(&self) -> String {
        let requests = self.server.requests();
        requests.last().and_then(|request| request.split_once("\r\n\r\n")).expect("a request").1.to_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let requests = self.server.requests();
        let prefix = format!("{name}: ");
        requests.last()?.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    }
}

pub(super) fn ok(body: &str) -> ServerReply {
    testing::reply("200 OK\r\ncontent-type: application/json", body.as_bytes())
}

const GET_ONE: &str = "  get:
    title: Get
    request: GET /items/{id}
    inputs: {id: path}
    example: {with: {id: '1'}, request: GET /v1/items/1}
";

const POST_ONE: &str = "  make:
    title: Make
    request: POST /items
    inputs: {id: body name}
    example: {with: {id: '1'}, request: POST /v1/items, body: {name: '1'}}
";

pub(super) fn get_one() -> String {
    GET_ONE.replace("/v1/items/1", "/items/1")
}

fn post_one() -> String {
    POST_ONE.replace("/v1/items", "/items")
}

#[tokio::test]
async fn an_answer_with_the_mark_of_a_refusal_is_an_error_of_its_code() {
    let errors = "errors: {code: error, when: {path: ok, is: false}, retry: [rate_limited], retryAfter: wait.seconds}\n";
    let text = manifest_with(errors, "{bearer: key}", &post_one());
    let double = Double::start(&text, |count, _| {
        ok(match count {
            0 => r#"{"ok": true, "error": "none"}"#,
            1 => r#"{"ok": false, "error": "no_channel"}"#,
            _ => r#"{"ok": false, "error": "rate_limited", "wait": {"seconds": 1.2}}"#,
        })
    })
    .await;
    double.call(r#"{"id": "a"}"#).await.expect("it is no refusal");
    let refused = double.call(r#"{"id": "a"}"#).await.expect_err("it is refused");
    assert_eq!(
        (refused.kind.clone(), refused.code.as_deref(), refused.status, refused.outcome_unknown),
        (ErrorKind::Response, Some("no_channel"), Some(200), false)
    );
    assert_eq!(refused.message, "Shop answered 200 no_channel");
    let busy = double.call(r#"{"id": "a"}"#).await.expect_err("it is refused");
    assert_eq!((busy.kind.clone(), busy.retry_after_ms), (ErrorKind::Network, Some(2000)));
    assert_eq!(busy.message, "Shop answered 200 rate_limited; it asks to wait 2s");
}

#[tokio::test]
async fn a_refusal_in_the_middle_of_the_work_leaves_the_outcome_of_a_change_unknown() {
    let errors = "errors: {code: error, when: {path: ok, is: false}, unknown: [internal_error]}\n";
    let failed = |method: &str| {
        let text = manifest_with(errors, "{bearer: key}", method);
        async move {
            let double = Double::start(&text, |_, _| ok(r#"{"ok": false, "error": "internal_error"}"#)).await;
            let error = double.call(r#"{"id": "a"}"#).await.expect_err("it is refused");
            (error.kind.clone(), error.outcome_unknown)
        }
    };
    assert_eq!(failed(&post_one()).await, (ErrorKind::Response, true));
    assert_eq!(failed(&get_one()).await, (ErrorKind::Network, false));
}

#[tokio::test]
async fn a_mark_without_a_value_is_any_value_but_null() {
    let text = manifest_with("errors: {when: {path: error}}\n", "{bearer: key}", &get_one());
    let double = Double::start(&text, |count, _| {
        ok(if count == 0 { r#"{"error": null}"# } else { r#"{"error": {"message": "no"}}"# })
    })
    .await;
    double.call(r#"{"id": "a"}"#).await.expect("it is no refusal");
    let refused = double.call(r#"{"id": "a"}"#).await.expect_err("it is refused");
    assert_eq!(refused.message, "Shop answered 200 OK: no");
}

#[tokio::test]
async fn credentials_in_the_address_are_sent_and_never_logged() {
    for (auth, line) in [
        ("{query: {name: api_key, value: key}}", "GET /v1/items/7?api_key=k-secret%261"),
        (
            "{query: [{name: key, value: [key, other]}, {name: token, value: other, prefix: 'x '}, {name: team, value: team, optional: true}]}",
            "GET /v1/items/7?key=k-secret%261&token=x%20o-secret",
        ),
        ("{path: {value: other, prefix: bot}}", "GET /v1/boto-secret/items/7"),
    ] {
        let text = manifest_with("", auth, &get_one());
        let double = Double::start(&text, |_, _| ok("{}")).await;
        double.call(r#"{"id": "7"}"#).await.expect("an answer");
        assert_eq!(double.lines(), [line], "{auth}");
        let logged = double.log.0.lock().expect("not poisoned").join("\n");
        assert!(logged.contains("/v1/items/7") && !logged.contains("secret"), "{logged}");
        assert!(!format!("{:?}", double.connection).contains("secret"));
    }
}

#[tokio::test]
async fn several_headers_carry_credentials() {
    let auth = "{header: [{name: X-Key, value: key}, {name: X-Other, value: other, prefix: 'o '}, {name: X-Team, value: team, optional: true}]}";
    let double = Double::start(&manifest_with("", auth, &get_one()), |_, _| ok("{}")).await;
    double.call(r#"{"id": "7"}"#).await.expect("an answer");
    assert_eq!(double.header("x-key").as_deref(), Some("k-secret&1"));
    assert_eq!(double.header("x-other").as_deref(), Some("o o-secret"));
    assert_eq!(double.header("x-team"), None);
}

#[tokio::test]
async fn a_request_is_signed_when_it_is_sent() {
    let auth =
        "{sigv4: {service: sqs, region: other, accessKey: other, secretKey: key, sessionToken: other}}";
    let double = Double::start(&manifest_with("", auth, &get_one()), |_, _| ok("{}")).await;
    double.call(r#"{"id": "7"}"#).await.expect("an answer");
    let sent = double.header("authorization").expect("a signature");
    let begin = "AWS4-HMAC-SHA256 Credential=o-secret/19700101/o-secret/sqs/aws4_request, \
                 SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=";
    assert!(sent.starts_with(begin), "{sent}");
    assert_eq!(double.header("x-amz-security-token").as_deref(), Some("o-secret"));
    let logged = double.log.0.lock().expect("not poisoned").join("\n");
    assert!(!logged.contains("secret") && !logged.contains("Signature"), "{logged}");
}

/// Returns the request for a token of a connection with this `auth`.
async fn token_request(auth: &str) -> String {
    let server = Server::start(|_, _| ok(r#"{"access_token": "t", "token_type": "bearer"}"#)).await;
    let text = manifest_with("", auth, &get_one())
        .replace("team: {type: text}", &format!("team: {{type: text, default: '{}'}}", server.url("/token")));
    let (manifest, errors) = read_text(&text);
    let manifest = manifest.unwrap_or_else(|| panic!("{errors}"));
    let key = include_str!("../../oauth/service-account.pem");
    let inputs: Map = [("key", key), ("other", "o-secret")].into_iter().collect();
    let connection = manifest.connections[0].resolve("mine", &inputs).expect("it resolves");
    let http = testing::http(testing::local());
    connection.oauth().expect("a client").client_credentials(&http).await.expect("a token");
    server.requests().remove(0)
}

#[tokio::test]
async fn a_token_is_requested_with_an_assertion() {
    let auth = "{oauth2: {grant: jwtBearer, tokenUrl: team, issuer: other, key: key, tokenParameters: {resource: r}}}";
    let request = token_request(auth).await;
    let body = request.split("\r\n\r\n").nth(1).expect("a body");
    let begin = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=eyJ";
    assert!(body.starts_with(begin) && body.ends_with("&resource=r"), "{body}");
    assert!(!body.contains("client_"), "{body}");
}

#[tokio::test]
async fn a_client_may_authenticate_in_a_header() {
    let auth = "{oauth2: {grant: clientCredentials, tokenUrl: team, clientId: other, clientSecret: other, clientAuth: basic}}";
    let request = token_request(auth).await;
    // `o-secret:o-secret`.
    assert!(request.contains("authorization: Basic by1zZWNyZXQ6by1zZWNyZXQ="), "{request}");
    assert!(request.ends_with("grant_type=client_credentials"), "{request}");
    let in_body = token_request(&auth.replace(", clientAuth: basic", "")).await;
    assert!(in_body.contains("client_secret=o-secret") && !in_body.contains("authorization"), "{in_body}");
}

#[tokio::test]
async fn a_client_may_prove_itself_with_an_assertion() {
    let auth = "{oauth2: {grant: clientCredentials, tokenUrl: team, clientId: other, clientSecret: key, clientAuth: jwt, keyId: other}}";
    let request = token_request(auth).await;
    let body = request.split("\r\n\r\n").nth(1).expect("a body");
    let fields: std::collections::HashMap<_, _> =
        url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    assert_eq!(fields["grant_type"], "client_credentials");
    assert_eq!(fields["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert!(!fields.contains_key("client_secret") && !body.contains("PRIVATE"), "{body}");
    let part = |index: usize| -> serde_json::Value {
        use base64::Engine as _;
        let part = fields["client_assertion"].split('.').nth(index).expect("a part");
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    assert_eq!((&part(0)["kid"], &part(0)["alg"]), (&"o-secret".into(), &"RS256".into()));
    let claims = part(1);
    assert_eq!((&claims["iss"], &claims["sub"]), (&"o-secret".into(), &"o-secret".into()));
    assert!(claims["aud"].as_str().is_some_and(|url| url.ends_with("/token")), "{claims}");
    assert_eq!(claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(end, begin)| end - begin), Some(300));
    let other = token_request(auth).await;
    assert_ne!(body, other.split("\r\n\r\n").nth(1).expect("a body"), "each proof has an id of its own");
}

#[test]
fn a_credential_must_be_a_secret_wherever_it_is_sent() {
    for auth in
        ["{query: {name: k, value: team}}", "{path: {value: team}}", "{header: [{name: k, value: team}]}"]
    {
        let (manifest, errors) = read_text(&manifest_with("", auth, &get_one()));
        assert!(manifest.is_none());
        assert_eq!(errors, "12:5: `team` is sent as a credential but is not marked as secret\n", "{auth}");
    }
}

#[tokio::test]
async fn a_form_with_brackets_names_nested_entries() {
    let action = "  make:
    title: Make
    request: POST /items
    inputs: {id: body name, items: body items}
    encoding: {form: brackets}
    example:
      with: {id: a b, items: [{price: p, n: 2}, {price: q}]}
      request: POST /items
      body: {name: a b, 'items[0][price]': p, 'items[0][n]': 2, 'items[1][price]': q}
";
    let double = Double::start(&manifest_with("", "{bearer: key}", action), |_, _| ok("{}")).await;
    double.call(r#"{"id": "ü&", "items": [{"price": "p"}, {"n": [1]}]}"#).await.expect("an answer");
    assert_eq!(double.body(), "name=%C3%BC%26&items%5B0%5D%5Bprice%5D=p&items%5B1%5D%5Bn%5D%5B0%5D=1");
}

#[tokio::test]
async fn a_form_with_json_writes_lists_and_maps_as_json() {
    let action = post_one()
        .replace("{id: body name}", "{id: body name, items: body items}\n    encoding: {form: json}");
    let double = Double::start(&manifest_with("", "{bearer: key}", &action), |_, _| ok("{}")).await;
    double.call(r#"{"id": "a", "items": [{"b": 1}]}"#).await.expect("an answer");
    assert_eq!(double.body(), "name=a&items=%5B%7B%22b%22%3A1%7D%5D");
}

#[tokio::test]
async fn the_key_of_a_call_goes_where_the_service_takes_it() {
    for (key, header, body) in [
        ("", ("idempotency-key", Some("execution.step")), r#"{"name":"a"}"#),
        ("idempotency: {header: X-Once}\n", ("x-once", Some("execution.step")), r#"{"name":"a"}"#),
        ("idempotency: {header: X-Once}\n", ("idempotency-key", None), r#"{"name":"a"}"#),
        ("idempotency: none\n", ("idempotency-key", None), r#"{"name":"a"}"#),
        (
            "idempotency: {body: meta.key}\n",
            ("idempotency-key", None),
            r#"{"meta":{"key":"execution.step"},"name":"a"}"#,
        ),
    ] {
        let text = manifest_with(key, "{bearer: key}", &post_one());
        let double = Double::start(&text, |_, _| ok("{}")).await;
        double.call(r#"{"id": "a"}"#).await.expect("an answer");
        assert_eq!(double.header(header.0).as_deref(), header.1, "{key}");
        assert_eq!(double.body(), body, "{key}");
    }
    let own = post_one().replace("    example", "    idempotency: none\n    example");
    let text = manifest_with("idempotency: {header: X-Once}\n", "{bearer: key}", &own);
    let double = Double::start(&text, |_, _| ok("{}")).await;
    double.call(r#"{"id": "a"}"#).await.expect("an answer");
    assert_eq!(double.header("x-once"), None);
}

#[tokio::test]
async fn a_service_without_calls_left_is_not_called_until_its_window_ends() {
    for (unit, reset, wait) in [
        ("seconds", "2.5", "2s500ms"),
        ("milliseconds", "1500", "1s500ms"),
        ("epoch", "3", "3s"),
        ("time", "1970-01-01T00:00:04Z", "4s"),
    ] {
        let rate = format!("rate: {{remaining: X-Left, reset: X-Reset, unit: {unit}}}\n");
        let head = format!("200 OK\r\ncontent-type: application/json\r\nx-left: 0\r\nx-reset: {reset}");
        let text = manifest_with(&rate, "{bearer: key}", &get_one());
        let double = Double::start(&text, move |_, _| testing::reply(&head, b"{}")).await;
        double.call(r#"{"id": "a"}"#).await.expect("an answer");
        let before = double.http.timer().now();
        double.call(r#"{"id": "a"}"#).await.expect("an answer");
        let waited = double.http.timer().now().duration_since(before);
        let waited = text::units::format_duration(waited.try_into().expect("a duration"));
        assert_eq!(waited, wait, "{unit}");
        let health = double.http.health();
        let limit = health[0].rate_limit.as_ref().expect("a rate limit");
        assert_eq!((limit.remaining.as_deref(), limit.reset.as_deref()), (Some("0"), Some(reset)));
    }
}

#[tokio::test]
async fn a_redirect_goes_only_to_hosts_that_the_action_names() {
    for (hosts, reached) in [("[files.example]", false), ("[localhost]", true), ("['*.example.com']", false)]
    {
        let action =
            get_one().replace("    example", &format!("    redirect: {{hosts: {hosts}}}\n    example"));
        let text = manifest_with("", "{bearer: key}", &action);
        let server = Server::start(|_, _| ok(r#"{"here": true}"#)).await;
        let location = format!("http://localhost:{}/file", server.address.port());
        let double = Double::start(&text, move |_, _| {
            testing::reply(&format!("302 Found\r\nlocation: {location}"), b"")
        })
        .await;
        let result = double.call(r#"{"id": "a"}"#).await;
        if !reached {
            let error = result.expect_err("it leads away");
            assert_eq!(error.kind, ErrorKind::Blocked);
            assert_eq!(
                error.message,
                "Shop redirects to the host `localhost`, which its connector does not name"
            );
            assert_eq!(server.requests(), Vec::<String>::new());
        }
    }
}

const GRAPHQL: &str = "  list:
    title: List
    request: POST /graphql
    graphql: {query: 'query($limit: Int, $cursor: String) { issues(first: $limit, after: $cursor) { nodes { id } pageInfo { endCursor hasNextPage } } }'}
    inputs: {limit: variable limit, cursor: variable cursor}
    paging: {items: issues.nodes}
    results: {type: object, fields: {issues: {type: object, open: true, fields: {nodes: {type: list, items: any}}}}}
    example:
      with: {limit: 2}
      request: POST /graphql
      body: {variables: {limit: 2}}
      answer: {data: {issues: {nodes: [], pageInfo: {}}}}
";

#[tokio::test]
async fn a_graphql_action_sends_its_query_and_follows_its_pages() {
    let paging = "paging: {input: cursor, style: graphql, limit: limit}\n";
    let text = manifest_with(paging, "{bearer: key}", GRAPHQL);
    let double = Double::start(&text, |count, _| {
        ok(match count {
            0 => r#"{"data": {"issues": {"nodes": [{"id": 1}], "pageInfo": {"endCursor": "c1", "hasNextPage": true}}}}"#,
            1 => r#"{"data": {"issues": {"nodes": [{"id": 2}], "pageInfo": {"endCursor": "c2", "hasNextPage": false}}}}"#,
            _ => r#"{"data": null, "errors": [{"message": "no such field", "extensions": {"code": "BAD"}}]}"#,
        })
    })
    .await;
    assert_eq!(double.manifest.actions[0].spec().effect, model::Effect::Read);
    let result = double.call(r#"{"fetchAll": true}"#).await.expect("both pages");
    assert_eq!(result.path("issues.nodes").expect("items").to_json(), r#"[{"id":1},{"id":2}]"#);
    assert!(double.body().ends_with(r#""variables":{"limit":100,"cursor":"c1"}}"#), "{}", double.body());
    let error = double.call("{}").await.expect_err("GraphQL errors");
    assert_eq!((error.code.as_deref(), error.kind.clone()), (Some("BAD"), ErrorKind::Response));
}

#[test]
fn the_variables_of_a_graphql_action_are_declared_in_its_query() {
    let check = |action: &str, expected: &str| {
        let text = manifest_with("paging: {input: cursor, style: graphql}\n", "{bearer: key}", action);
        let (_, errors) = read_text(&text);
        assert_eq!(errors, expected);
    };
    check(GRAPHQL, "");
    check(
        &GRAPHQL.replace("variable limit", "variable first"),
        "24:14: the query declares no variable `$first`\n",
    );
    check(
        &GRAPHQL.replace("request: POST /graphql", "request: PUT /graphql"),
        "22:5: a PUT carries no GraphQL query\n",
    );
}

#[test]
fn the_answer_of_an_example_fits_the_results() {
    let action = get_one().replace(
        "    example: {with: {id: '1'}, request: GET /items/1}",
        "    results: {type: object, fields: {name: text}}\n    example:\n      with: {id: '1'}\n      request: GET /items/1\n      answer: ANSWER",
    );
    let check = |keys: &str, answer: &str, expected: &str| {
        let (_, errors) = read_text(&manifest_with(keys, "{bearer: key}", &action.replace("ANSWER", answer)));
        assert_eq!(errors, expected);
    };
    check("", "{name: a}", "");
    check(
        "",
        "{name: 1}",
        "27:16: the answer of the example does not fit the action: `name` must be text, found number\n",
    );
    check(
        "errors: {when: {path: ok, is: false}}\n",
        "{name: a, ok: false}",
        "28:16: the answer of the example does not fit the action: `errors.when` takes it for a refusal\n",
    );
}

#[test]
fn statements_about_the_service_are_checked() {
    let check = |keys: &str, expected: &str| {
        let (_, errors) = read_text(&manifest_with(keys, "{bearer: key}", &get_one()));
        assert_eq!(errors, expected);
    };
    check("proof: {by: openapi, date: 2026-11-30}\n", "");
    check(
        "proof: {by: openapi, date: 30.11.2026}\n",
        "18:28: `30.11.2026` is not a day; write it like `2026-11-30`\n",
    );
    check(
        "errors: {retry: [a]}\n",
        "18:10: `retry` lists codes, and nothing says where an answer has its code\n",
    );
    check("idempotency: {header: 'a b'}\n", "18:23: `a b` is not the name of a header\n");
    check("rate: {remaining: X-Left}\n", "18:8: a rate limit needs the key `reset`\n");
}
