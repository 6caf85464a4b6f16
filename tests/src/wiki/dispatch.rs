//! From a place and a method to the transition of the state, and from its result to an answer.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use super::attachments::{OnExisting, attachment_versions};
use super::auth::{Host, authenticate, basic_pair};
use super::clock::Moment;
use super::core::{Call, Core};
use super::error::ApiError;
use super::log::fingerprint;
use super::model::{Parent, Which};
use super::oauth::{accessible_resources, invalid_request};
use super::page_reads::{PageFilter, PageWish, page_likes, page_versions};
use super::pages::{CreateOptions, PageInput};
use super::paging::{Slice, list_reply, page_of_ordered};
use super::properties::PropertyInput;
use super::query::{parse_attachment_id, parse_id};
use super::reply::Reply;
use super::routes::{Entries, Owner, Place, Target, target, without_gateway};
use super::users::{Right, Who};
use super::words::UPLOAD_HEADER;

/// How long the signed address of a file is good.
const MEDIA_LIFETIME: Duration = Duration::from_secs(300);

impl Core {
    /// Answers a call, whatever it is.
    pub(super) fn answer(&mut self, call: &Call) -> Reply {
        let target = match target(&call.path) {
            Some(target) => target,
            None => return ApiError::not_found().reply(),
        };
        let method = if call.method == "HEAD" { "GET" } else { call.method.as_str() };
        if target.is_missing(method) {
            return ApiError::not_simulated(&call.method, &call.path).reply();
        }
        let methods = target.methods();
        if !methods.contains(&method) {
            return ApiError::wrong_method(&methods.join(", ")).reply();
        }
        let outcome = match target {
            Target::Api { host, cloud_id, place } => return self.api(call, method, host, cloud_id, &place),
            Target::AccessibleResources => self.accessible_resources(call),
            Target::Authorize => self.authorize(call),
            Target::Token => self.token(call),
            Target::TenantInfo => {
                Ok(Reply::ok(&BTreeMap::from([("cloudId", self.sites.first().map(|s| &s.cloud_id))])))
            }
            Target::Media(file) => self.media(call, &file),
            Target::Missing => Err(ApiError::not_found()),
        };
        outcome.unwrap_or_else(|error| error.reply())
    }

    /// A call of the API: credentials, budget, cloud id, scopes, and then what it asks for.
    fn api(
        &mut self,
        call: &Call,
        method: &str,
        host: Host,
        cloud_id: Option<String>,
        place: &Place,
    ) -> Reply {
        if self.state.switches.self_hosted && (host == Host::Gateway || !place.is_v1()) {
            return ApiError::not_found().reply();
        }
        let who = match self.who(call, host) {
            Ok(who) => who,
            Err(error) => return error.reply(),
        };
        let credential = fingerprint(call.header("authorization").unwrap_or_default());
        let verdict = self.limits.count(&credential, self.state.clock.now());
        if let Some(refusal) = self.limits.refusal(&verdict) {
            return refusal;
        }
        let outcome = self
            .check_cloud_id(cloud_id.as_deref())
            .and_then(|()| check_scopes(&who, place, method))
            .and_then(|()| check_media_type(call, place, method))
            .and_then(|()| self.carry_out(call, method, place, &who));
        let mut reply = match outcome {
            Ok(reply) => reply,
            Err(error) if place.is_v1() => error.into_v1().reply(),
            Err(error) => error.reply(),
        };
        verdict.dress(&mut reply);
        reply
    }

    fn who(&self, call: &Call, host: Host) -> Result<Who, ApiError> {
        let authorization = call.header("authorization");
        let self_hosted = self.state.switches.self_hosted;
        authenticate(host, authorization, &self.state.users, &self.oauth, self_hosted, self.state.clock.now())
    }

    fn check_cloud_id(&self, cloud_id: Option<&str>) -> Result<(), ApiError> {
        match cloud_id {
            Some(id) if !self.sites.iter().any(|site| site.cloud_id == id) => {
                Err(ApiError::gateway(StatusCode::NOT_FOUND, "Not Found"))
            }
            _ => Ok(()),
        }
    }

    fn carry_out(&mut self, call: &Call, method: &str, place: &Place, who: &Who) -> Result<Reply, ApiError> {
        let query = &call.query;
        match (place, method) {
            (Place::Pages, "GET") => {
                let pages = self.state.list_pages(who, &PageFilter::everywhere(query)?, query)?;
                Ok(self.list(call, &pages))
            }
            (Place::Pages, _) => self.create_page(call, who),
            (Place::Page(id), _) => self.page(call, method, who, parse_id("id", id)?),
            (Place::PageAttachments(id), _) => {
                let attachments = self.state.list_attachments(who, Some(parse_id("id", id)?), query)?;
                Ok(self.list(call, &attachments))
            }
            (Place::Spaces, _) => Ok(self.list(call, &self.state.list_spaces(who, query)?)),
            (Place::Space(id), _) => Ok(Reply::ok(&self.state.get_space(who, parse_id("id", id)?, query)?)),
            (Place::SpacePages(id), _) => {
                let space = parse_id("id", id)?;
                let filter = PageFilter::in_space(query, space)?;
                self.state.space_for(who, space, Right::View)?;
                Ok(self.list(call, &self.state.list_pages(who, &filter, query)?))
            }
            (Place::Attachments, _) => Ok(self.list(call, &self.state.list_attachments(who, None, query)?)),
            (Place::Attachment(id), "DELETE") => {
                let purge = query.flag("purge", false)?;
                self.state.delete_attachment(who, parse_attachment_id(id)?, purge)?;
                Ok(Reply::no_content())
            }
            (Place::Attachment(id), _) => {
                Ok(Reply::ok(&self.state.get_attachment(who, parse_attachment_id(id)?, query)?))
            }
            (Place::CustomContent(id), _) => {
                Ok(Reply::ok(&self.state.get_custom_content(who, parse_id("id", id)?, query)?))
            }
            (Place::Properties(owner, id), _) => self.properties(call, method, who, parent(*owner, id)?),
            (Place::Property(owner, id, property), _) => {
                let property = parse_id("property-id", property)?;
                self.property(call, method, who, parent(*owner, id)?, property)
            }
            (Place::Entries(owner, id, entries), _) => self.entries(call, who, *owner, id, *entries),
            (Place::Upload(page), _) => self.upload(call, method, who, page),
            (Place::DownloadByName(page, name), _) => {
                let found =
                    self.state.named_on(parse_id("id", page)?, name).ok_or_else(ApiError::not_found)?;
                self.download(call, who, found)
            }
            (Place::DownloadById(id), _) => self.download(call, who, parse_attachment_id(id)?),
            (Place::Graphql, _) => self.graphql.answer(&self.state, who, &call.headers, &call.body),
        }
    }

    /// The operations that a user may do: a list of its own, without pages.
    fn operations(&self, operations: &impl Serialize) -> Reply {
        Reply::ok(&BTreeMap::from([("operations", operations)]))
    }

    fn list<T: Serialize>(&self, call: &Call, slice: &Slice<T>) -> Reply {
        let path = without_gateway(&call.path);
        list_reply(slice, path, &call.query, &self.state.base_url, self.state.switches.old_next_links)
    }

    fn create_page(&mut self, call: &Call, who: &Who) -> Result<Reply, ApiError> {
        let query = &call.query;
        // `embedded` chooses a store of the platform that cannot be told apart from here.
        query.flag("embedded", false)?;
        let options = CreateOptions {
            private: query.flag("private", false)?,
            root_level: query.flag("root-level", false)?,
        };
        let id = self.state.create_page(who, PageInput::parse(&call.body)?, options)?;
        Ok(Reply::ok(&self.state.get_page(who, id, &PageWish::echo(Which::Latest))?))
    }

    fn page(&mut self, call: &Call, method: &str, who: &Who, id: u64) -> Result<Reply, ApiError> {
        match method {
            "PUT" => {
                let shown = self.state.update_page(who, id, PageInput::parse(&call.body)?)?;
                Ok(Reply::ok(&self.state.get_page(who, id, &PageWish::echo(shown))?))
            }
            "DELETE" => {
                let (purge, draft) = (call.query.flag("purge", false)?, call.query.flag("draft", false)?);
                self.state.delete_page(who, id, purge, draft)?;
                Ok(Reply::no_content())
            }
            _ => Ok(Reply::ok(&self.state.get_page(who, id, &PageWish::parse(&call.query)?)?)),
        }
    }

    fn properties(
        &mut self,
        call: &Call,
        method: &str,
        who: &Who,
        parent: Parent,
    ) -> Result<Reply, ApiError> {
        if method == "GET" {
            let properties = self.state.list_properties(who, parent, &call.query)?;
            return Ok(self.list(call, &properties));
        }
        let input = PropertyInput::parse(&call.body)?;
        Ok(Reply::ok(&self.state.create_property(who, parent, &input)?))
    }

    fn property(
        &mut self,
        call: &Call,
        method: &str,
        who: &Who,
        parent: Parent,
        id: u64,
    ) -> Result<Reply, ApiError> {
        match method {
            "PUT" => {
                let input = PropertyInput::parse(&call.body)?;
                Ok(Reply::ok(&self.state.update_property(who, parent, id, &input)?))
            }
            "DELETE" => {
                self.state.delete_property(who, parent, id)?;
                Ok(Reply::no_content())
            }
            _ => Ok(Reply::ok(&self.state.get_property(who, parent, id)?)),
        }
    }

    /// The whole of an included list, from where its cursor left off.
    fn entries(
        &self,
        call: &Call,
        who: &Who,
        owner: Owner,
        id: &str,
        entries: Entries,
    ) -> Result<Reply, ApiError> {
        let (state, query) = (&self.state, &call.query);
        match owner {
            Owner::Page => {
                let page = state.page_for(who, parse_id("id", id)?, Right::View)?;
                Ok(match entries {
                    Entries::Labels => self.list(call, &page_of_ordered(page.labels.clone(), query)?),
                    Entries::Versions => self.list(call, &page_of_ordered(page_versions(page), query)?),
                    Entries::Likes => self.list(call, &page_of_ordered(page_likes(page), query)?),
                    _ => self.operations(&state.page_operations(who, page)),
                })
            }
            Owner::Attachment => {
                let attachment = state.attachment_for(who, parse_attachment_id(id)?, Right::View)?;
                let space = state.place_of(attachment.container).map_or(0, |(space, _)| space);
                Ok(match entries {
                    Entries::Labels => self.list(call, &page_of_ordered(attachment.labels.clone(), query)?),
                    Entries::Versions => {
                        self.list(call, &page_of_ordered(attachment_versions(attachment), query)?)
                    }
                    _ => self.operations(&state.operations(who, space, "attachment")),
                })
            }
            Owner::Space | Owner::CustomContent => {
                let space = state.space_for(who, parse_id("id", id)?, Right::View)?;
                Ok(match entries {
                    Entries::Labels => self.list(call, &page_of_ordered(space.labels.clone(), query)?),
                    Entries::Permissions => {
                        self.list(call, &page_of_ordered(state.space_permissions(space), query)?)
                    }
                    Entries::Operations => self.operations(&state.operations(who, space.id, "space")),
                    _ => self.list(call, &page_of_ordered(Vec::<()>::new(), query)?),
                })
            }
        }
    }

    fn upload(&mut self, call: &Call, method: &str, who: &Who, page: &str) -> Result<Reply, ApiError> {
        let token = call.header(UPLOAD_HEADER).unwrap_or_default();
        if !matches!(token, "no-check" | "nocheck") {
            return Err(ApiError::forbidden("XSRF check failed"));
        }
        let page = parse_id("id", page)?;
        let upload = match &call.upload {
            Some(Ok(upload)) => upload.clone(),
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(ApiError::bad_request("The body must be multipart/form-data")),
        };
        let on_existing = if method == "POST" { OnExisting::Refuse } else { OnExisting::NewVersion };
        Ok(Reply::ok(&self.state.upload(who, page, upload, on_existing)?))
    }

    /// Redirects to the signed address of the file, which is on another host.
    fn download(&self, call: &Call, who: &Who, id: u64) -> Result<Reply, ApiError> {
        let file = self.state.download(who, id, &call.query)?;
        let expires = self.state.clock.now().plus(MEDIA_LIFETIME).millis();
        let number = file.version.number;
        let token = media_token(id, number, expires);
        let media =
            format!("{}/_media/att{id}?version={number}&expires={expires}&token={token}", self.media_url);
        Ok(Reply::found(&media))
    }

    /// The bytes of a file. A request that brings credentials of its own is refused, as stores of files refuse two ways
    /// in at once: a client that follows a redirect to another host must leave its Authorization header behind.
    fn media(&self, call: &Call, file: &str) -> Result<Reply, ApiError> {
        if call.header("authorization").is_some() {
            return Err(ApiError::bad_request(
                "The address is signed: an Authorization header is not accepted",
            ));
        }
        let id = parse_attachment_id(file)?;
        let number = call.query.number("version")?;
        let expires: i64 = call.query.get("expires").and_then(|text| text.parse().ok()).unwrap_or(0);
        let signed = call.query.get("token") == Some(media_token(id, number.unwrap_or(0), expires).as_str());
        if !signed || self.state.clock.now() >= Moment::from_millis(expires) {
            return Err(ApiError::forbidden("The address is not signed, or no longer good"));
        }
        let attachment = self.state.attachments.get(&id).ok_or_else(ApiError::not_found)?.get();
        let found = attachment.version(number).ok_or_else(ApiError::not_found)?;
        let mut reply = Reply::bytes(StatusCode::OK, &found.media_type, found.bytes.clone());
        let name =
            percent_encoding::utf8_percent_encode(&attachment.title, percent_encoding::NON_ALPHANUMERIC);
        reply.set("content-disposition", &format!("attachment; filename*=UTF-8''{name}"));
        Ok(reply)
    }

    fn accessible_resources(&self, call: &Call) -> Result<Reply, ApiError> {
        let who = self.who(call, Host::Gateway)?;
        Ok(match &self.resources {
            Some(resources) => Reply::ok(resources),
            None => Reply::ok(&accessible_resources(&self.sites, &self.state.base_url, &who)),
        })
    }

    fn authorize(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let users = &self.state.users;
        let account = match call.query.get("login_hint") {
            Some(email) => users.iter().find(|user| user.email.eq_ignore_ascii_case(email)),
            None => users.first(),
        };
        let account = account.map(|user| user.account_id.clone());
        let (denied, now) = (self.state.switches.deny_consent, self.state.clock.now());
        let location = self.oauth.authorize(&call.query, account.as_deref(), denied, now)?;
        Ok(Reply::found(&location))
    }

    fn token(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let form = call
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        let fields = if form && !self.state.switches.json_tokens_only {
            url::form_urlencoded::parse(&call.body).into_owned().collect()
        } else {
            serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(&call.body)
                .map_err(|_| invalid_request("The body must be a JSON object"))?
                .into_iter()
                .filter_map(|(name, value)| value.as_str().map(|text| (name, text.to_owned())))
                .collect()
        };
        let basic = call.header("authorization").and_then(basic_pair);
        let tokens = self.oauth.token(&fields, basic, self.state.clock.now())?;
        let mut reply = Reply::ok(&tokens);
        reply.set("cache-control", "no-store");
        Ok(reply)
    }
}

fn parent(owner: Owner, id: &str) -> Result<Parent, ApiError> {
    match owner {
        Owner::Page => parse_id("page-id", id).map(Parent::Page),
        Owner::Attachment => parse_attachment_id(id).map(Parent::Attachment),
        Owner::CustomContent => parse_id("custom-content-id", id).map(Parent::CustomContent),
        Owner::Space => Err(ApiError::not_found()),
    }
}

fn check_scopes(who: &Who, place: &Place, method: &str) -> Result<(), ApiError> {
    let held = place.scopes(method).iter().all(|group| group.iter().any(|scope| who.has_scope(scope)));
    if held { Ok(()) } else { Err(ApiError::scope_mismatch()) }
}

fn check_media_type(call: &Call, place: &Place, method: &str) -> Result<(), ApiError> {
    if place.takes_json(method) && !call.has_json() { Err(ApiError::wrong_media_type()) } else { Ok(()) }
}

fn media_token(id: u64, version: u32, expires: i64) -> String {
    fingerprint(&format!("media {id} {version} {expires}")).replace("sha256:", "")
}
