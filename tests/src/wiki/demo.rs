//! The small wiki that the program shows to people who try things. Its ids are the same in every run.

use serde_json::json;

use super::error::Error;
use super::model::{Parent, Status};
use super::seed::{PageSeed, SpaceSeed};
use super::state::State;
use super::users::{Permissions, User};

/// The first id of every simulator, above 2^31 and 2^32 so that no reader gets away with a smaller integer.
pub const FIRST_ID: u64 = 4_300_000_001;
/// The id of the space `DEMO` of the demo site.
pub const DEMO_SPACE_ID: u64 = FIRST_ID;
/// The id of the space `ARCH` of the demo site.
pub const ARCH_SPACE_ID: u64 = FIRST_ID + 2;
/// The id of the page `Welcome` in the space `DEMO`: it has labels, a like, a property, attachments and custom content.
pub const DEMO_PAGE_ID: u64 = FIRST_ID + 4;
/// The number of the id of `notes.txt` on that page (`att` and this number). It has a property.
pub const DEMO_ATTACHMENT_ID: u64 = FIRST_ID + 5;
/// The id of the custom content on that page. It has a property.
pub const DEMO_CUSTOM_CONTENT_ID: u64 = FIRST_ID + 6;
/// The e-mail address of the user who may do everything.
pub const DEMO_EMAIL: &str = "demo@example.com";
/// The API token of that user.
pub const DEMO_TOKEN: &str = "demo-token";
/// An API token of that user with scopes, for the gateway.
pub const DEMO_SCOPED_TOKEN: &str = "demo-scoped-token";
/// The e-mail address of a user who may only look, and only at the space `DEMO`.
pub const READER_EMAIL: &str = "reader@example.com";
/// The API token of that user.
pub const READER_TOKEN: &str = "reader-token";
/// The OAuth client of every simulator.
pub const DEMO_CLIENT_ID: &str = "demo-client";
/// Its secret.
pub const DEMO_CLIENT_SECRET: &str = "demo-secret";
/// Every scope that a connection to the wiki asks for by default.
pub const ALL_SCOPES: &str = "offline_access delete:attachment:wiki read:attachment:wiki write:attachment:wiki \
    read:custom-content:wiki write:custom-content:wiki delete:custom-content:wiki read:page:wiki write:page:wiki \
    delete:page:wiki read:space:wiki";
/// The cloud id of the site.
pub const CLOUD_ID: &str = "3f0e7a52-6c1d-4b8e-9a57-0d2c41b6f9e1";

/// The smallest PNG there is: one transparent pixel.
const PIXEL: [u8; 67] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x00, 0x01, 0x00, 0x00, 0x05, 0x00, 0x01,
    0x0d, 0x0a, 0x2d, 0xb4, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// The user of every simulator: everything is allowed, by API token on the site and by scoped token on the gateway.
pub(super) fn demo_user() -> User {
    User::new("557058:demo", DEMO_EMAIL).api_token(DEMO_TOKEN).scoped_api_token(DEMO_SCOPED_TOKEN, ALL_SCOPES)
}

/// Fills a new wiki with two spaces, a dozen pages and something of everything else.
pub(super) fn fill(state: &mut State) -> Result<(), Error> {
    let reader =
        User::new("557058:reader", READER_EMAIL).api_token(READER_TOKEN).everywhere(Permissions::NONE);
    state.add_user(reader.in_space("DEMO", Permissions::VIEW));
    let demo = SpaceSeed::new("DEMO", "Demo").description("A space to try things in");
    let demo = state.add_space(demo)?;
    let arch = state.add_space(SpaceSeed::new("ARCH", "Architecture").kind("knowledge_base"))?;
    demo_pages(state, demo)?;
    architecture_pages(state, arch)
}

fn demo_pages(state: &mut State, space: u64) -> Result<(), Error> {
    let body = "<h1>Welcome</h1><p>This page exists to be read, changed and deleted.</p>";
    let welcome = state.add_page(PageSeed::new(space, "Welcome").body(body))?;
    // First what has a constant of its own above, in its order.
    let notes = state.add_attachment(welcome, "notes.txt", "text/plain", "Remember the milk.\n")?;
    let task = state.add_custom_content(welcome, "ac:demo:task", "Water the plants")?;
    state.add_attachment(welcome, "pixel.png", "image/png", PIXEL.to_vec())?;
    state.add_label(welcome, "welcome")?;
    state.add_label(welcome, "start-here")?;
    state.like(welcome, "557058:reader")?;
    state.favourite(welcome, "557058:demo")?;
    state.add_property(Parent::Page(welcome), "reviewed", &json!({"by": "demo", "ok": true}))?;
    state.add_property(Parent::Attachment(notes), "checked", &json!(true))?;
    state.add_property(Parent::CustomContent(task), "due", &json!("2026-06-01"))?;
    let meetings = state.add_page(PageSeed::new(space, "Meeting notes"))?;
    for month in ["January", "February", "March"] {
        state.add_page(PageSeed::new(space, &format!("Meeting of {month}")).under(meetings))?;
    }
    state.add_page(PageSeed::new(space, "Old handbook").status(Status::Archived))?;
    state.add_page(PageSeed::new(space, "Not finished yet").status(Status::Draft))?;
    Ok(())
}

fn architecture_pages(state: &mut State, space: u64) -> Result<(), Error> {
    state.add_space_label(space, "engineering")?;
    let decisions = state.add_page(PageSeed::new(space, "Decisions"))?;
    for (number, what) in ["One binary", "Connectors are data", "An execution is a log"].iter().enumerate() {
        let page =
            state.add_page(PageSeed::new(space, &format!("ADR {}: {what}", number + 1)).under(decisions))?;
        state.add_label(page, "adr")?;
    }
    let csv = "component,owner\nengine,demo\n";
    state.add_attachment(decisions, "components.csv", "text/csv", csv)?;
    state.add_page(PageSeed::new(space, "Glossary"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiki::clock::{Clock, Moment};

    #[test]
    fn the_ids_of_the_demo_site_are_what_its_constants_say() {
        let mut state = State::new(Clock::fixed(Moment::from_millis(0)), FIRST_ID, vec![demo_user()]);
        fill(&mut state).unwrap();
        assert_eq!(state.spaces[&DEMO_SPACE_ID].key, "DEMO");
        assert_eq!(state.spaces[&ARCH_SPACE_ID].key, "ARCH");
        assert_eq!(state.pages[&DEMO_PAGE_ID].get().title(), "Welcome");
        assert_eq!(state.attachments[&DEMO_ATTACHMENT_ID].get().title, "notes.txt");
        assert_eq!(state.custom_contents[&DEMO_CUSTOM_CONTENT_ID].kind, "ac:demo:task");
        assert!(state.pages.len() >= 12);
    }
}
