//! A small client: one simulator of its own for each test, and answers that are easy to look into.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::wiki::{
    ALL_SCOPES, Builder, DEMO_EMAIL, DEMO_TOKEN, Error, PageSeed, Running, Simulator, SpaceSeed, State, User,
};

/// A running simulator and a client for it.
pub(crate) struct Wiki {
    pub(crate) sim: Running,
    pub(crate) http: reqwest::Client,
    /// The first space, when the wiki was started with one.
    pub(crate) space: u64,
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
    /// The ids of a list.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.column("id")
    }

    /// One field of each entry of a list.
    pub(crate) fn column(&self, field: &str) -> Vec<String> {
        let entries = self.body["results"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text));
        entries.iter().map(|entry| entry[field].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The relative address of the next page.
    pub(crate) fn next(&self) -> Option<String> {
        self.body["_links"]["next"].as_str().map(str::to_owned)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The code of the first error in the v2 shape.
    pub(crate) fn code(&self) -> &str {
        self.body["errors"][0]["code"].as_str().unwrap_or_default()
    }

    /// The title of the first error in the v2 shape.
    pub(crate) fn title(&self) -> &str {
        self.body["errors"][0]["title"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// An error of the v2 API with this status and code.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str) -> &Self {
        self.is(status);
        assert_eq!(self.code(), code, "{}", self.text);
        assert_eq!(self.body["errors"][0]["status"], status);
        assert!(!self.title().is_empty());
        self
    }
}

/// A wiki with one space, `TEST`.
pub(crate) async fn wiki() -> Wiki {
    wiki_with(Simulator::builder()).await
}

/// A wiki with one space, `TEST`, built otherwise.
pub(crate) async fn wiki_with(builder: Builder) -> Wiki {
    let mut wiki = bare(builder).await;
    wiki.space = wiki.seed(|state| state.add_space(SpaceSeed::new("TEST", "Test")));
    wiki
}

/// A wiki as it is built.
pub(crate) async fn bare(builder: Builder) -> Wiki {
    // An error means that another test of this process was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Wiki { sim: builder.start().await.unwrap(), http, space: 0 }
}

/// A user of this name who may do everything, with an API token made of the name.
pub(crate) fn user(name: &str) -> User {
    User::new(format!("account-{name}"), format!("{name}@example.com")).api_token(format!("{name}-token"))
}

impl Wiki {
    pub(crate) fn seed<T>(&self, seed: impl FnOnce(&mut State) -> Result<T, Error>) -> T {
        self.sim.seed(seed).unwrap()
    }

    /// Seeds a page of this title in the first space.
    pub(crate) fn page(&self, title: &str) -> u64 {
        let space = self.space;
        self.seed(|state| state.add_page(PageSeed::new(space, title)))
    }

    /// Seeds an attachment of this name on a page.
    pub(crate) fn attachment(&self, page: u64, name: &str) -> u64 {
        self.seed(|state| state.add_attachment(page, name, "text/plain", format!("the bytes of {name}")))
    }

    /// Seeds custom content on a page.
    pub(crate) fn custom_content(&self, page: u64) -> u64 {
        self.seed(|state| state.add_custom_content(page, "ac:app:thing", "Thing"))
    }

    pub(crate) fn homepage(&self) -> u64 {
        let space = self.space;
        self.sim.seed(|state| state.homepage(space)).unwrap()
    }

    /// A request to a path of the site's v2 API by the user who may do everything.
    pub(crate) fn v2(&self, method: Method, path: &str) -> RequestBuilder {
        self.site(method, &format!("/wiki/api/v2{path}"))
    }

    /// A request to any path by the user who may do everything.
    pub(crate) fn site(&self, method: Method, path: &str) -> RequestBuilder {
        self.open(method, path).basic_auth(DEMO_EMAIL, Some(DEMO_TOKEN))
    }

    /// A request without credentials.
    pub(crate) fn open(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.sim.base_url()))
    }

    /// A request to a path of the gateway's v2 API with this access token.
    pub(crate) fn gateway(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.sim.gateway_api())).bearer_auth(token)
    }

    /// A request to a path of the site's v2 API by the user of this name.
    pub(crate) fn as_user(&self, name: &str, method: Method, path: &str) -> RequestBuilder {
        let request = self.open(method, &format!("/wiki/api/v2{path}"));
        request.basic_auth(format!("{name}@example.com"), Some(format!("{name}-token")))
    }

    pub(crate) fn token(&self) -> String {
        self.sim.grant(ALL_SCOPES).access_token
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.v2(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        send(self.v2(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        send(self.v2(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        send(self.v2(Method::DELETE, path)).await
    }

    /// Creates a page of this title with more fields.
    pub(crate) async fn create(&self, title: &str, more: Value) -> Answer {
        let mut body = json!({"spaceId": self.space.to_string(), "title": title});
        merge(&mut body, more);
        self.post("/pages", body).await
    }

    /// Updates a page to this title and version number with more fields.
    pub(crate) async fn update(&self, page: u64, title: &str, number: u32, more: Value) -> Answer {
        let mut body = json!({
            "id": page.to_string(),
            "status": "current",
            "title": title,
            "body": {"representation": "storage", "value": "<p>changed</p>"},
            "version": {"number": number, "message": "why"},
        });
        merge(&mut body, more);
        self.put(&format!("/pages/{page}"), body).await
    }
}

fn merge(body: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        for (name, value) in more {
            body[name] = value;
        }
    }
}

/// Sends a request that is answered.
pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    Answer { status, headers, text, body }
}

/// The id of a created thing.
pub(crate) fn id(answer: &Answer) -> u64 {
    answer.body["id"].as_str().unwrap_or_else(|| panic!("no id: {}", answer.text)).parse().unwrap()
}
