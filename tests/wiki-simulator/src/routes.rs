//! The table of routes, and the way of a call from its path to the handler.

use super::call::{ApiError, Call, Reply, reject_if};
use super::model::State;
use super::seed::CLOUD_ID;

type Handler = fn(&mut State, &Call) -> Result<Reply, ApiError>;

/// A row: method, path, scopes, handler.
///
/// A path without a leading `/` is below `/wiki/api/v2`. In a path `a|b` is a segment `a` or `b`, `*` any segment.
/// Everything below `/wiki` is also on the gateway, below `/ex/{slug}/{cloudId}`.
///
/// All scopes of a row are needed, where `a|b` is either of two; a scope without a kind of content has that of the path.
/// A row with [`OPEN`] does its own authentication, if any.
type Route = (&'static str, &'static str, &'static str, Handler);

const OPEN: &str = "open";
const CONTENT: &str = "pages|attachments|spaces|custom-content/*";
const OWN_PROPERTIES: &str = "pages|attachments|custom-content/*/properties";
const OWN_PROPERTY: &str = "pages|attachments|custom-content/*/properties/*";
const UPLOAD: &str = "/wiki/rest/api/content/*/child/attachment";
const DOWNLOAD_SCOPES: &str = "read:attachment:wiki|readonly:content.attachment:wiki";
const UPLOAD_SCOPES: &str = "write:attachment:wiki|write:wiki-file";

#[rustfmt::skip]
static ROUTES: &[Route] = &[
    ("GET",    "pages|spaces|attachments",                "read",                     State::list),
    ("GET",    "pages/*/attachments",                     "read:attachment:wiki",     State::list),
    ("GET",    "spaces/*/pages",                          "read:page:wiki",           State::list),
    ("GET",    CONTENT,                                   "read",                     State::get),
    ("POST",   "pages",                                   "write",                    State::create_page),
    ("PUT",    "pages/*",                                 "write",                    State::update_page),
    ("DELETE", "pages|attachments/*",                     "delete",                   State::delete),
    ("GET",    OWN_PROPERTIES,                            "read",                     State::list_entries),
    ("POST",   OWN_PROPERTIES,                            "read write",               State::create_property),
    ("GET",    OWN_PROPERTY,                              "read",                     State::get_property),
    ("PUT",    OWN_PROPERTY,                              "read write",               State::update_property),
    ("DELETE", OWN_PROPERTY,                              "read write",               State::delete_property),
    ("GET",    "pages|attachments/*/versions",            "read",                     State::list_entries),
    ("GET",    "pages|attachments|spaces/*/labels|operations", "read",                State::list_entries),
    ("GET",    "pages/*/likes/users",                     "read",                     State::list_entries),
    ("GET",    "spaces/*/permissions|properties",         "read",                     State::list_entries),
    ("POST",   UPLOAD,                                    UPLOAD_SCOPES,              State::upload),
    ("PUT",    UPLOAD,                                    UPLOAD_SCOPES,              State::upload),
    ("GET",    "/wiki/rest/api/content/*/child/attachment/*/download", DOWNLOAD_SCOPES, State::download),
    ("GET",    "/wiki/download/attachments/*/*",          DOWNLOAD_SCOPES,            State::download),
    // The scopes of a query depend on its fields, which are unknown here.
    ("POST",   "/gateway/api/graphql",                    "",                         State::graphql),
    ("POST",   "/graphql",                                "",                         State::graphql),
    ("GET",    "/authorize",                              OPEN,                       State::authorize),
    ("POST",   "/oauth/token",                            OPEN,                       State::token),
    ("GET",    "/oauth/token/accessible-resources",       OPEN,                       State::accessible_resources),
    ("GET",    "/_edge/tenant_info",                      OPEN,                       State::tenant_info),
    ("GET",    "/_media/*",                               OPEN,                       State::media),
    ("POST",   "spaces",                                  OPEN,                       not_simulated),
    ("POST",   "spaces/*/properties",                     OPEN,                       not_simulated),
    ("PUT",    "custom-content/*",                        OPEN,                       not_simulated),
    ("DELETE", "custom-content/*",                        OPEN,                       not_simulated),
];

/// Paths of the real service that the simulator lacks; `**` at the end is any segments, also none.
static LACKING: [&str; 12] = [
    "pages/*/title|children|direct-children|descendants|ancestors|footer-comments|inline-comments|custom-content|redact",
    "pages/*/classification-level/**",
    "pages/*/likes/count",
    "pages|attachments|custom-content/*/versions/*",
    "attachments/*/footer-comments",
    "attachments/*/thumbnail/**",
    "custom-content/**",
    "spaces/*/blogposts|custom-content|role-assignments",
    "spaces/*/content|properties|classification-level/**",
    "blogposts|footer-comments|inline-comments|tasks|user|labels|whiteboards|databases|folders|embeds|content|app/**",
    "users-bulk|data-policies|classification-levels|space-permissions|space-roles|space-role-mode|admin-key/**",
    "/wiki/rest/api/**",
];

fn not_simulated(_: &mut State, call: &Call) -> Result<Reply, ApiError> {
    Err(ApiError::v2(501, format!("The simulator does not have {} {}", call.method, call.path)))
}

/// The path without the gateway's `/ex/{slug}/{cloudId}`, with the slug and the cloud id.
pub(super) fn split_gateway(path: &str) -> (Option<(&str, &str)>, &str) {
    let mut parts = path.strip_prefix("/ex/").unwrap_or_default().splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(slug), Some(cloud_id), Some(rest)) => {
            (Some((slug, cloud_id)), &path[path.len() - rest.len() - 1..])
        }
        _ => (None, path),
    }
}

/// The decoded segments of a path; none for a path that no route has.
fn segments(path: &str) -> Vec<String> {
    let below = path.strip_prefix("/wiki/api/v2/").or(path.strip_prefix('/')).unwrap_or_default();
    let decode =
        |text| percent_encoding::percent_decode_str(text).decode_utf8().ok().filter(|text| !text.is_empty());
    let segments: Option<Vec<_>> = below.split('/').map(decode).collect();
    segments.unwrap_or_default().into_iter().map(std::borrow::Cow::into_owned).collect()
}

fn matches(pattern: &str, path: &str, segments: &[String]) -> bool {
    let below_api = path.starts_with("/wiki/api/v2/");
    let (pattern, whole) = pattern.strip_prefix('/').map_or((pattern, false), |pattern| (pattern, true));
    let (pattern, open) = pattern.strip_suffix("/**").map_or((pattern, false), |pattern| (pattern, true));
    let wanted: Vec<&str> = pattern.split('/').collect();
    let fits =
        |(wanted, segment): (&&str, &String)| wanted.split('|').any(|word| word == "*" || word == segment);
    let length = segments.len() == wanted.len() || (open && segments.len() > wanted.len());
    whole != below_api && length && wanted.iter().zip(segments).all(fits)
}

impl State {
    /// Answers a call.
    pub(super) fn answer(&mut self, call: &mut Call) -> Reply {
        let path = std::mem::take(&mut call.path);
        let (gateway, inner) = split_gateway(&path);
        // Only the paths below `/wiki` are on the gateway.
        let inner = match gateway {
            Some(("wiki", _)) if inner.starts_with("/wiki/") => inner,
            Some(_) => "",
            _ => inner,
        };
        call.cloud_id = gateway.map(|(_, cloud_id)| cloud_id.to_owned());
        (call.path, call.segments) = (inner.to_owned(), segments(inner));
        self.dispatch(call).unwrap_or_else(|error| error.reply())
    }

    fn dispatch(&mut self, call: &mut Call) -> Result<Reply, ApiError> {
        let method = if call.method == "HEAD" { "GET" } else { call.method.as_str() };
        let on_path = ROUTES.iter().filter(|(_, pattern, ..)| matches(pattern, &call.path, &call.segments));
        let Some((_, _, scopes, handler)) = on_path.clone().find(|(allowed, ..)| *allowed == method) else {
            let allowed: Vec<&str> = on_path.map(|(allowed, ..)| *allowed).collect();
            return if !allowed.is_empty() {
                Err(ApiError::v2(405, "Method Not Allowed").with("allow", &allowed.join(", ")))
            } else if LACKING.iter().any(|pattern| matches(pattern, &call.path, &call.segments)) {
                not_simulated(self, call)
            } else {
                Err(ApiError::not_found())
            };
        };
        if *scopes == OPEN {
            return handler(self, call);
        }
        let gateway = call.cloud_id.is_some() || call.path == "/graphql";
        call.scopes = self.authenticate(call, gateway)?;
        let (budget, over) = self.limits.count(call.header("authorization"), self.clock.now());
        let outcome = match over {
            true => Err(ApiError::gateway(429, "Too many requests")),
            false => self.check(call, scopes).and_then(|()| handler(self, call)),
        };
        let v1 = call.path.starts_with("/wiki/rest/") || call.path.starts_with("/wiki/download/");
        let v1_shaped = |error: ApiError| if v1 { error.into_v1().reply() } else { error.reply() };
        let mut reply = outcome.unwrap_or_else(v1_shaped);
        budget.iter().for_each(|(name, value)| reply.set(name, value));
        Ok(reply)
    }

    fn check(&self, call: &Call, scopes: &str) -> Result<(), ApiError> {
        if call.cloud_id.as_ref().is_some_and(|id| id != CLOUD_ID) {
            return Err(ApiError::gateway(404, "Not Found"));
        }
        self.check_scopes(call, scopes)?;
        let kind = call.header("content-type").split(';').next().unwrap_or_default();
        let upload = call.path.starts_with("/wiki/rest/");
        let takes_json = matches!(call.method.as_str(), "POST" | "PUT") && !upload;
        let other = takes_json && !kind.trim().eq_ignore_ascii_case("application/json");
        reject_if(other, 415, "The Content-Type of the request must be application/json")?;
        Ok(())
    }
}
