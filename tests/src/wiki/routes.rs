//! Which path is what, which methods it has, and which scopes they need.

use super::auth::Host;

/// Where a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An operation of the API on one of its hosts; the cloud id is the one in the path.
    Api { host: Host, cloud_id: Option<String>, place: Place },
    /// `/oauth/token/accessible-resources`.
    AccessibleResources,
    /// `/authorize`.
    Authorize,
    /// `/oauth/token`.
    Token,
    /// `/_edge/tenant_info`.
    TenantInfo,
    /// A call of the real service that the simulator does not have.
    Missing,
    /// The signed address of a file, on the host that downloads redirect to.
    Media(String),
}

/// A path of the API. Ids are still text: whether they are numbers is judged after the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Pages,
    Page(String),
    PageAttachments(String),
    Spaces,
    Space(String),
    SpacePages(String),
    Attachments,
    Attachment(String),
    CustomContent(String),
    Properties(Owner, String),
    Property(Owner, String, String),
    /// The whole of a list that a single get includes the beginning of.
    Entries(Owner, String, Entries),
    /// Uploads through the older API.
    Upload(String),
    /// A download by container and file name, as `downloadLink` has it.
    DownloadByName(String, String),
    /// A download through the older API.
    DownloadById(String),
    Graphql,
}

/// The owner of a property or of an included list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Page,
    Attachment,
    CustomContent,
    Space,
}

/// A list that a single get can include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    Labels,
    Versions,
    Operations,
    Likes,
    Permissions,
    Properties,
}

/// Finds the target of a path, whose segments are decoded. Nothing: the path is unknown.
pub(super) fn target(path: &str) -> Option<Target> {
    let segments = segments(path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let on = |host, cloud_id: Option<&str>, place| Target::Api {
        host,
        cloud_id: cloud_id.map(str::to_owned),
        place,
    };
    Some(match segments.as_slice() {
        ["authorize"] => Target::Authorize,
        ["oauth", "token"] => Target::Token,
        ["oauth", "token", "accessible-resources"] => Target::AccessibleResources,
        ["_edge", "tenant_info"] => Target::TenantInfo,
        ["_media", file] => Target::Media((*file).to_owned()),
        ["graphql"] => on(Host::Gateway, None, Place::Graphql),
        ["gateway", "api", "graphql"] => on(Host::Site, None, Place::Graphql),
        ["ex", "wiki", _, "wiki", rest @ ..] | ["wiki", rest @ ..] if lacks(rest) => Target::Missing,
        ["ex", "wiki", cloud_id, "wiki", rest @ ..] => on(Host::Gateway, Some(cloud_id), wiki(rest)?),
        ["wiki", rest @ ..] => on(Host::Site, None, wiki(rest)?),
        _ => return None,
    })
}

/// The path without the gateway's `/ex/wiki/{cloudId}`.
pub(super) fn without_gateway(path: &str) -> &str {
    let inner = path.strip_prefix("/ex/wiki/").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
    inner.unwrap_or(path)
}

fn segments(path: &str) -> Option<Vec<String>> {
    let decode = |segment: &str| {
        percent_encoding::percent_decode_str(segment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
    };
    path.strip_prefix('/')?
        .split('/')
        .map(|segment| decode(segment).filter(|text| !text.is_empty()))
        .collect()
}

/// Paths of the v2 API that the simulator does not have; `*` is one segment, and `**` at the end any that follow.
const LACKING: [&str; 33] = [
    "pages/*/title",
    "pages/*/children",
    "pages/*/direct-children",
    "pages/*/descendants",
    "pages/*/ancestors",
    "pages/*/footer-comments",
    "pages/*/inline-comments",
    "pages/*/custom-content",
    "pages/*/classification-level/**",
    "pages/*/redact",
    "pages/*/likes/count",
    "pages/*/versions/*",
    "attachments/*/versions/*",
    "attachments/*/footer-comments",
    "attachments/*/thumbnail/**",
    "blogposts/**",
    "footer-comments/**",
    "inline-comments/**",
    "tasks/**",
    "users-bulk",
    "user/**",
    "labels/**",
    "whiteboards/**",
    "databases/**",
    "folders/**",
    "embeds/**",
    "content/**",
    "custom-content",
    "custom-content/*/*",
    "custom-content/*/versions/*",
    "app/**",
    "data-policies/**",
    "classification-levels",
];
/// The same of spaces, and of what administrators do.
const LACKING_OF_SPACES: [&str; 10] = [
    "spaces/*/blogposts",
    "spaces/*/custom-content",
    "spaces/*/content/labels",
    "spaces/*/properties/*",
    "spaces/*/role-assignments",
    "spaces/*/classification-level/**",
    "space-permissions",
    "space-roles/**",
    "space-role-mode",
    "admin-key",
];

/// True if the real service has a resource at a path below `/wiki` that the simulator lacks.
fn lacks(segments: &[&str]) -> bool {
    if wiki(segments).is_some() {
        return false;
    }
    match segments {
        ["api", "v2", rest @ ..] => {
            LACKING.iter().chain(&LACKING_OF_SPACES).any(|pattern| is_like(pattern, rest))
        }
        ["rest", "api", _, ..] => true,
        _ => false,
    }
}

fn is_like(pattern: &str, segments: &[&str]) -> bool {
    let mut segments = segments.iter();
    for wanted in pattern.split('/') {
        if wanted == "**" {
            return true;
        }
        if !segments.next().is_some_and(|segment| wanted == "*" || wanted == *segment) {
            return false;
        }
    }
    segments.next().is_none()
}

fn wiki(segments: &[&str]) -> Option<Place> {
    let text = |segment: &&str| (*segment).to_owned();
    Some(match segments {
        ["api", "v2", rest @ ..] => v2(rest)?,
        ["rest", "api", "content", page, "child", "attachment"] => Place::Upload(text(page)),
        ["rest", "api", "content", _, "child", "attachment", id, "download"] => Place::DownloadById(text(id)),
        ["download", "attachments", container, name] => Place::DownloadByName(text(container), text(name)),
        _ => return None,
    })
}

fn v2(segments: &[&str]) -> Option<Place> {
    let text = |segment: &&str| (*segment).to_owned();
    Some(match segments {
        ["pages"] => Place::Pages,
        ["pages", id] => Place::Page(text(id)),
        ["pages", id, "attachments"] => Place::PageAttachments(text(id)),
        ["spaces"] => Place::Spaces,
        ["spaces", id] => Place::Space(text(id)),
        ["spaces", id, "pages"] => Place::SpacePages(text(id)),
        ["attachments"] => Place::Attachments,
        ["attachments", id] => Place::Attachment(text(id)),
        ["custom-content", id] => Place::CustomContent(text(id)),
        ["spaces", id, "properties"] => Place::Entries(Owner::Space, text(id), Entries::Properties),
        [kind, id, "properties"] => Place::Properties(owner(kind)?, text(id)),
        [kind @ ("pages" | "attachments" | "custom-content"), id, "properties", property] => {
            Place::Property(owner(kind)?, text(id), text(property))
        }
        ["pages", id, "likes", "users"] => Place::Entries(Owner::Page, text(id), Entries::Likes),
        ["pages", id, "versions"] => Place::Entries(Owner::Page, text(id), Entries::Versions),
        ["attachments", id, "versions"] => Place::Entries(Owner::Attachment, text(id), Entries::Versions),
        ["spaces", id, "permissions"] => Place::Entries(Owner::Space, text(id), Entries::Permissions),
        [kind @ ("pages" | "attachments" | "spaces"), id, "labels"] => {
            Place::Entries(owner(kind)?, text(id), Entries::Labels)
        }
        [kind @ ("pages" | "attachments" | "spaces"), id, "operations"] => {
            Place::Entries(owner(kind)?, text(id), Entries::Operations)
        }
        _ => return None,
    })
}

fn owner(kind: &str) -> Option<Owner> {
    Some(match kind {
        "pages" => Owner::Page,
        "attachments" => Owner::Attachment,
        "custom-content" => Owner::CustomContent,
        "spaces" => Owner::Space,
        _ => return None,
    })
}

impl Target {
    /// True if the real service has this call and the simulator does not.
    pub(super) fn is_missing(&self, method: &str) -> bool {
        match self {
            Self::Missing => true,
            Self::Api { place, .. } => matches!(
                (place, method),
                (Place::Spaces, "POST")
                    | (Place::CustomContent(_), "PUT" | "DELETE")
                    | (Place::Entries(Owner::Space, _, Entries::Properties), "POST")
            ),
            _ => false,
        }
    }

    /// The methods of the path. HEAD goes wherever GET does.
    pub(super) fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Api { place, .. } => place.methods(),
            Self::Missing => &[],
            Self::Token => &["POST"],
            Self::Authorize | Self::AccessibleResources | Self::TenantInfo | Self::Media(_) => &["GET"],
        }
    }
}

impl Place {
    fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Pages | Self::Properties(..) => &["GET", "POST"],
            Self::Page(_) | Self::Property(..) => &["GET", "PUT", "DELETE"],
            Self::Attachment(_) => &["GET", "DELETE"],
            Self::Upload(_) => &["POST", "PUT"],
            Self::Graphql => &["POST"],
            _ => &["GET"],
        }
    }

    /// True if a call takes a JSON body.
    pub(super) fn takes_json(&self, method: &str) -> bool {
        matches!(method, "POST" | "PUT") && !self.is_v1()
    }

    /// A path of the older API, whose errors have another shape and whose scopes may be classic ones.
    pub(super) fn is_v1(&self) -> bool {
        matches!(self, Self::Upload(_) | Self::DownloadById(_) | Self::DownloadByName(..))
    }

    /// The scopes that a call needs: one of each group.
    pub(super) fn scopes(&self, method: &str) -> &'static [&'static [&'static str]] {
        match (self, method) {
            (Self::Pages | Self::Page(_) | Self::SpacePages(_), "GET") => &[&["read:page:wiki"]],
            (Self::Page(_), "DELETE") => &[&["delete:page:wiki"]],
            (Self::Pages | Self::Page(_), _) => &[&["write:page:wiki"]],
            (Self::Attachment(_), "DELETE") => &[&["delete:attachment:wiki"]],
            (Self::Attachments | Self::Attachment(_) | Self::PageAttachments(_), _) => {
                &[&["read:attachment:wiki"]]
            }
            (Self::CustomContent(_), _) => &[&["read:custom-content:wiki"]],
            (Self::Properties(owner, _) | Self::Property(owner, ..), "GET") => owner.read_scopes(),
            // Both to write and to delete: never the delete scope.
            (Self::Properties(owner, _) | Self::Property(owner, ..), _) => owner.write_scopes(),
            (Self::Entries(owner, ..), _) => owner.read_scopes(),
            (Self::Spaces | Self::Space(_) | Self::SpacePages(_), _) => &[&["read:space:wiki"]],
            (Self::Upload(_), _) => &[&["write:attachment:wiki", "write:wiki-file"]],
            (Self::DownloadByName(..) | Self::DownloadById(_), _) => {
                &[&["read:attachment:wiki", "readonly:content.attachment:wiki"]]
            }
            // The cost of a query depends on its fields, which are unknown here.
            (Self::Graphql, _) => &[],
        }
    }
}

impl Owner {
    fn read_scopes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Page => &[&["read:page:wiki"]],
            Self::Attachment => &[&["read:attachment:wiki"]],
            Self::CustomContent => &[&["read:custom-content:wiki"]],
            Self::Space => &[&["read:space:wiki"]],
        }
    }

    fn write_scopes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Page => &[&["read:page:wiki"], &["write:page:wiki"]],
            Self::Attachment => &[&["read:attachment:wiki"], &["write:attachment:wiki"]],
            Self::CustomContent => &[&["read:custom-content:wiki"], &["write:custom-content:wiki"]],
            Self::Space => &[&["read:space:wiki"]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Option<(Host, Place)> {
        match target(path)? {
            Target::Api { host, place, .. } => Some((host, place)),
            _ => None,
        }
    }

    #[test]
    fn both_hosts_lead_to_the_same_places() {
        let site = place("/wiki/api/v2/pages/7").unwrap();
        let gateway = place("/ex/wiki/cloud/wiki/api/v2/pages/7").unwrap();
        assert_eq!(site, (Host::Site, Place::Page("7".into())));
        assert_eq!(gateway, (Host::Gateway, Place::Page("7".into())));
        assert_eq!(without_gateway("/ex/wiki/cloud/wiki/api/v2/pages"), "/wiki/api/v2/pages");
    }

    #[test]
    fn a_doubled_prefix_and_other_mistakes_lead_nowhere() {
        for path in [
            "/",
            "",
            "/wiki",
            "/wiki/wiki/api/v2/pages",
            "/api/v2/pages",
            "/wiki/api/v2/pages/",
            "/wiki/api/v2/webhook",
            "/ex/wiki/cloud",
            "/wiki/api/v2/pages/%FF",
        ] {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn what_the_real_service_has_besides_is_missing_and_not_unknown() {
        for path in [
            "/wiki/api/v2/pages/7/title",
            "/wiki/api/v2/pages/7/versions/2",
            "/wiki/api/v2/blogposts",
            "/wiki/api/v2/blogposts/1/labels",
            "/ex/wiki/cloud/wiki/api/v2/tasks/7",
            "/wiki/api/v2/spaces/1/properties/2",
            "/wiki/api/v2/custom-content/1/children",
            "/wiki/rest/api/search",
        ] {
            assert_eq!(target(path), Some(Target::Missing), "{path}");
        }
        assert_eq!(target("/wiki/api/v2/pages/7/unheard-of"), None);
        assert!(target("/wiki/api/v2/spaces").unwrap().is_missing("POST"));
        assert!(!target("/wiki/api/v2/spaces").unwrap().is_missing("GET"));
    }

    #[test]
    fn property_writes_need_both_scopes_and_never_the_delete_scope() {
        let property = Place::Property(Owner::CustomContent, "1".into(), "2".into());
        for method in ["PUT", "DELETE"] {
            assert_eq!(
                property.scopes(method),
                [&["read:custom-content:wiki"], &["write:custom-content:wiki"]]
            );
        }
        assert_eq!(property.scopes("GET"), [&["read:custom-content:wiki"]]);
    }
}
