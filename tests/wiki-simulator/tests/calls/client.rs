//! A client with a simulator of its own for each test.

use std::cell::RefCell;

use reqwest::header::HeaderMap;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use wiki_simulator::{
    ALL_SCOPES, ApiError, Builder, CLOUD_ID, DEMO_EMAIL, DEMO_TOKEN, PageSeed, Running, Simulator, SpaceSeed,
    State, Status,
};

pub(crate) const NONE: Value = Value::Null;

/// A running simulator and a client of it.
pub(crate) struct Wiki {
    pub(crate) sim: Running,
    pub(crate) http: reqwest::Client,
    /// The space `TEST`.
    pub(crate) space: u64,
    /// The ids that transcripts name.
    ids: RefCell<Vec<(String, String)>>,
}

/// An answer that has been read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null when the body is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// One field of each entry of a list, joined by commas.
    pub(crate) fn column(&self, field: &str) -> String {
        let entries = self.body["results"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text));
        entries.iter().map(|entry| entry[field].as_str().unwrap()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn len(&self) -> usize {
        self.body["results"].as_array().map_or(0, Vec::len)
    }

    /// The query of the address of the next page.
    pub(crate) fn next(&self) -> Option<&str> {
        self.body["_links"]["next"].as_str().map(|next| next.split_once('?').unwrap().1)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// A field that is text.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_else(|| panic!("no {name}: {}", self.text))
    }

    /// The title of the first error of the v2 API.
    pub(crate) fn title(&self) -> &str {
        self.body["errors"][0]["title"].as_str().unwrap_or_default()
    }

    /// Checks the status and, after a blank, the code of an error of the v2 API: `404 NOT_FOUND`.
    #[track_caller]
    pub(crate) fn is(&self, expected: &str) -> &Self {
        let error = &self.body["errors"][0];
        let outcome = format!("{} {}", self.status, error["code"].as_str().unwrap_or_default());
        assert_eq!(outcome.trim(), expected, "{}", self.text);
        assert!(
            error["code"].is_null() || (error["status"] == self.status && !self.title().is_empty()),
            "{}",
            self.text
        );
        self
    }

    /// Checks fields of the body by their dotted paths; `null` also stands for a field that is absent, and `*.field` for the
    /// field of all entries of a list, joined by commas.
    #[track_caller]
    pub(crate) fn has(&self, fields: Value) -> &Self {
        for (path, expected) in fields.as_object().unwrap() {
            let found = match path.strip_prefix("*.") {
                Some(field) => self.column(field).into(),
                None => self.body.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or(NONE),
            };
            assert_eq!(found, *expected, "{path} in {}", self.text);
        }
        self
    }
}

/// Makes a test of each transcript.
macro_rules! transcripts {
    ($($name:ident: $transcript:literal)*) => {
        $(#[tokio::test]
        async fn $name() {
            crate::client::wiki().await.run($transcript).await;
        })*
    };
}
pub(crate) use transcripts;

pub(crate) async fn wiki() -> Wiki {
    wiki_with(Simulator::builder()).await
}

/// A wiki with the spaces `TEST` and `OTHER`.
pub(crate) async fn wiki_with(builder: Builder) -> Wiki {
    // An error means that another test of this process was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sim = builder.start().await.unwrap();
    let space = sim.seed(|state| state.add_space(SpaceSeed::new("TEST", "Test"))).unwrap();
    let other = sim.seed(|state| state.add_space(SpaceSeed::new("OTHER", "Other"))).unwrap();
    let wiki = Wiki { sim, http, space, ids: RefCell::default() };
    wiki.name("space", space);
    wiki.name("home", space + 1);
    wiki.name("other", other);
    wiki.name("elsewhere", other + 1);
    wiki
}

impl Wiki {
    /// Runs a transcript, in which a line is a call with a JSON body and, after `->`, its outcome with fields of the answer.
    ///
    /// `name = call` names the id in the answer, which `$name` stands for from then on; at first there are `$space` with its
    /// `$home`, and `$other` with `$elsewhere`. Further calls are `create TITLE` and `update ID NUMBER` for pages and `upload
    /// METHOD PAGE NAME TEXT`. `attach CONTAINER NAME`, `content CONTAINER` and `archive ID` add and
    /// change content without a call.
    pub(crate) async fn run(&self, transcript: &str) {
        for line in transcript.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = self.named(line);
            let (call, expected) = line.split_once(" -> ").unwrap_or((&line, ""));
            let (name, call) = call.split_once(" = ").unwrap_or(("", call));
            let (call, body) = with_json(call);
            let words: Vec<&str> = call.split(' ').collect();
            let seeded = match words[..] {
                ["attach", container, file] => self.attachment(container.parse().unwrap(), file),
                ["content", container] => self.custom_content(container.parse().unwrap()),
                ["archive", id] => self.archive(id.parse().unwrap()),
                _ => 0,
            };
            if seeded > 0 {
                self.name(name, seeded);
                continue;
            }
            let answer = match words[..] {
                ["upload", method, page, file, text] => {
                    let part = Part::bytes(text.as_bytes().to_vec()).file_name(file.to_owned());
                    self.upload(method, page, Form::new().part("file", part)).await
                }
                ["create", title] => self.create(title, body).await,
                ["update", page, number] => self.update(page, number.parse().unwrap(), body).await,
                _ => self.call(call, body).await,
            };
            let (outcome, fields) = with_json(expected);
            let answer = Answer { text: format!("{line}\n{}", answer.text), ..answer };
            answer.is(outcome).has(if fields.is_null() { json!({}) } else { fields });
            if !name.is_empty() {
                let id = answer.body["results"][0]["id"].as_str().map(|id| id.trim_start_matches("att"));
                self.name(name, id.unwrap_or_else(|| answer.field("id")));
            }
        }
    }

    /// Uploads to a page.
    pub(crate) async fn upload(&self, method: &str, page: &str, form: Form) -> Answer {
        let request = self.request(&format!("{method} /wiki/rest/api/content/{page}/child/attachment"));
        send(request.header("X-Wiki-Token", "no-check").multipart(form)).await
    }

    /// Names an id for transcripts.
    pub(crate) fn name(&self, name: &str, id: impl ToString) {
        if !name.is_empty() {
            self.ids.borrow_mut().push((format!("${name}"), id.to_string()));
        }
    }

    /// A text with the ids in the place of their names.
    pub(crate) fn named(&self, text: &str) -> String {
        self.ids.borrow().iter().rev().fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    pub(crate) fn seed<T>(&self, seed: impl FnOnce(&mut State) -> Result<T, ApiError>) -> T {
        self.sim.seed(seed).unwrap()
    }

    pub(crate) fn page(&self, title: &str) -> u64 {
        self.seed(|state| state.add_page(PageSeed::new(self.space, title)))
    }

    pub(crate) fn attachment(&self, container: u64, name: &str) -> u64 {
        self.seed(|state| state.add_attachment(container, name, "text/plain", format!("the bytes of {name}")))
    }

    fn archive(&self, content: u64) -> u64 {
        self.seed(|state| state.set_status(content, Status::Archived).map(|()| content))
    }

    /// Adds custom content to a page or to a space.
    pub(crate) fn custom_content(&self, container: u64) -> u64 {
        self.seed(|state| state.add_custom_content(container, "ac:app:thing", "Thing"))
    }

    /// A request without credentials, such as `GET /pages`: to the v2 API, or to a whole path of a host.
    pub(crate) fn open(&self, line: &str) -> RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        let roots = ["/wiki/", "/ex/", "/gateway", "/graphql", "/oauth", "/authorize", "/_", "/api/"];
        let base = if roots.iter().any(|root| path.starts_with(root)) { "" } else { "/wiki/api/v2" };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.http.request(method, format!("{}{base}{path}", self.sim.base_url()))
    }

    /// A request with the API token of the user.
    pub(crate) fn request(&self, line: &str) -> RequestBuilder {
        self.open(line).basic_auth(DEMO_EMAIL, Some(DEMO_TOKEN))
    }

    /// A request to the v2 API on the gateway.
    pub(crate) fn gateway(&self, line: &str, token: &str) -> RequestBuilder {
        self.open(&line.replacen(" /", &format!(" /ex/wiki/{CLOUD_ID}/wiki/api/v2/"), 1)).bearer_auth(token)
    }

    pub(crate) async fn call(&self, line: &str, body: Value) -> Answer {
        send(with(self.request(line), body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), NONE).await
    }

    pub(crate) fn token(&self) -> String {
        self.sim.grant(ALL_SCOPES).0
    }

    /// Creates a page of this title with more fields.
    pub(crate) async fn create(&self, title: &str, more: Value) -> Answer {
        self.call("POST /pages", merge(json!({"spaceId": self.space.to_string(), "title": title}), more))
            .await
    }

    pub(crate) async fn update(&self, page: &str, number: u32, more: Value) -> Answer {
        let body = json!({"representation": "storage", "value": "<p>changed</p>"});
        let version = json!({"number": number, "message": "why"});
        let update = json!({"id": page, "status": "current", "title": "B", "body": body, "version": version});
        self.call(&format!("PUT /pages/{page}"), merge(update, more)).await
    }
}

/// The text before a JSON object, and the object.
fn with_json(text: &str) -> (&str, Value) {
    let (text, json) = text.split_at(text.find(" {").unwrap_or(text.len()));
    let json = if json.is_empty() {
        NONE
    } else {
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
    };
    (text, json)
}

fn with(request: RequestBuilder, body: Value) -> RequestBuilder {
    if body.is_null() { request } else { request.json(&body) }
}

pub(crate) fn merge(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

/// Sends a request that is answered.
pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    Answer { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text }
}
