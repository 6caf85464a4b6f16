//! Tests of the wiki connector against its specification: table 4.1.2, section 4.1.5, and the connection types of 5.1
//! and 5.2.

use std::collections::BTreeMap;

use model::InputSpec;
use pretty_assertions::assert_eq;
use value::Value;

use super::builtin;

/// Types and defaults of inputs by name: `type = default`, with a leading `.` for the fields of a map. An input that
/// differs in one action is prefixed with that action's name.
const INPUTS: &str = "
pageId                  text
spaceId                 text
attachmentId            text
customContentId         text
propertyId              text
parentId                text
status                  one of current, draft
title                   text
embedded                true or false = false
private                 true or false = false
purge                   true or false = false
draft                   true or false = false
queryParameters         map of anything
limit                   whole number from 1 to 250 = 25
cursor                  text
fetchAll                true or false
maxItems                whole number from 1 to 100000
body                    map
body.representation     one of storage, wiki_doc_format, wiki = storage
body.value!             text
version                 map
version.number!         whole number from 1
version.message         text
bodyData                map
bodyData.key!           text
bodyData.value!         anything
bodyData.version!       map
bodyData.version.number! whole number from 1
bodyData.version.message text
sort                    one of key, -key
bodyFormat              one of storage, wiki_doc_format
getDraft                true or false = false
includeLabels           true or false = false
includeProperties       true or false = false
includeOperations       true or false = false
includeLikes            true or false = false
includeVersions         true or false = false
includeVersion          true or false = true
includeFavoritedByCurrentUserStatus true or false = false
depth                   one of all, root
query                   text
variables               map of anything
headers                 map of text
url                     address
method                  one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS, LINK, UNLINK, PURGE
data                    anything
formData                map of anything
fileData                map of file
fileDataFileNames       map of text
responseType            one of json, text, binary = json
timeout                 text
retryDelayMs            whole number from 0 to 3600000 = 0
retryOnAllErrors        true or false = false
maxRetryCount           whole number from 0 to 100 = 0
useExponentialBackoff   true or false = false
getPage/version         whole number from 1
getPage/bodyFormat      one of storage, wiki_doc_format, view, export_view, anonymous_export_view, styled_view, editor
listPages/id            list of text
listPages/spaceId       list of text
listPages/sort          one of id, -id, created-date, -created-date, modified-date, -modified-date, title, -title
listPages/status        list of one of current, archived, deleted, trashed
listPagesInSpace/sort   one of id, -id, created-date, -created-date, modified-date, -modified-date, title, -title
listPagesInSpace/status list of one of current, archived, deleted, trashed
";

/// Table 4.1.2 in its order: each action with its inputs, without Connection and Debug Request, which each step has.
/// `!` marks required inputs. The fields of a property are `key` and `value`; changing a property also takes its
/// `version`.
const ACTIONS: &str = "
createContentPropertyForAttachment    | Create Content Property for Attachment | attachmentId! bodyData! bodyData.key! bodyData.value!
createContentPropertyForCustomContent | Create Content Property for Custom Content | customContentId! bodyData! bodyData.key! bodyData.value!
createContentPropertyForPage          | Create Content Property for Page | pageId! bodyData! bodyData.key! bodyData.value!
createPage                            | Create Page | spaceId! status title parentId body! body.representation body.value! embedded private queryParameters
deleteAttachment                      | Delete Attachment | attachmentId! purge
deleteContentPropertyForCustomContent | Delete Content Property for a Custom Content | customContentId! propertyId!
deleteContentPropertyForAttachment    | Delete Content Property for an Attachment | attachmentId! propertyId!
deleteContentPropertyForPage          | Delete Content Property for Page | pageId! propertyId!
deletePage                            | Delete Page | pageId! purge draft
getAttachment                         | Get Attachment | attachmentId! queryParameters
getAttachmentsForPage                 | Get Attachments for Page | pageId! limit cursor queryParameters fetchAll maxItems
getContentPropertiesForCustomContent  | Get Content Properties for Custom Content | customContentId! propertyId!
getContentPropertyForAttachment       | Get Content Property for Attachment | attachmentId! propertyId!
getContentPropertyForPage             | Get Content Property for Page | pageId! propertyId!
getPage                               | Get Page | pageId! bodyFormat getDraft version includeLabels includeProperties includeOperations includeLikes includeVersions includeVersion includeFavoritedByCurrentUserStatus
getSpace                              | Get Space | spaceId! queryParameters
listAttachments                       | List Attachments | limit cursor queryParameters fetchAll maxItems
listContentPropertiesForAttachments   | List Content Properties for Attachments | attachmentId! limit cursor sort queryParameters fetchAll maxItems
listContentPropertiesForCustomContent | List Content Properties for Custom Content | customContentId! limit cursor sort queryParameters fetchAll maxItems
listContentPropertiesForPage          | List Content Properties for Page | pageId! limit cursor sort queryParameters fetchAll maxItems
listPages                             | List Pages | limit cursor id spaceId sort status title bodyFormat fetchAll maxItems
listPagesInSpace                      | List Pages in Space | spaceId! depth sort status title bodyFormat limit cursor fetchAll maxItems
listSpaces                            | List Spaces | limit cursor queryParameters fetchAll maxItems
rawGraphqlRequest                     | Raw GraphQL Request | query! variables headers
rawRequest                            | Raw Request | url! method! data formData fileData fileDataFileNames queryParameters headers responseType timeout retryDelayMs retryOnAllErrors maxRetryCount useExponentialBackoff
updateContentPropertyForAttachment    | Update Content Property for Attachment | attachmentId! propertyId! bodyData! bodyData.key! bodyData.value! bodyData.version! bodyData.version.number! bodyData.version.message
updateContentPropertyForCustomContent | Update Content Property for Custom Content | customContentId! propertyId! bodyData! bodyData.key! bodyData.value! bodyData.version! bodyData.version.number! bodyData.version.message
updateContentPropertyForPage          | Update Content Property for Page | pageId! propertyId! bodyData! bodyData.key! bodyData.value! bodyData.version! bodyData.version.number! bodyData.version.message
updatePage                            | Update Page | pageId! status! title! body! body.representation body.value! version! version.number! version.message spaceId parentId
";

/// Formats the inputs of an action and their fields as in the tables.
fn written(inputs: &[InputSpec], before: &str, rows: &mut Vec<(String, String)>) {
    for input in inputs {
        let path = format!("{before}{}", input.name);
        let default =
            input.default.as_ref().map_or_else(String::new, |value| format!(" = {}", value.to_text()));
        let mark = if input.required { "!" } else { "" };
        rows.push((format!("{path}{mark}"), format!("{}{default}", input.kind.describe())));
        if let model::InputType::Object { fields } = &input.kind {
            written(fields, &format!("{path}."), rows);
        }
    }
}

#[test]
fn every_action_has_the_inputs_of_the_specification_by_name_type_and_default() {
    let registry = builtin();
    let bare = |name: &str| name.trim_end_matches('!').to_owned();
    let meanings: BTreeMap<String, &str> = INPUTS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, meaning)| (bare(name), meaning.trim()))
        .collect();
    let rows: Vec<Vec<&str>> = ACTIONS
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 29);
    assert_eq!(registry.connector("wiki").expect("it is shipped").actions.len(), 29);
    for row in rows {
        let [name, title, inputs] = row[..] else { panic!("{row:?}") };
        let spec = registry.action(&format!("wiki.{name}")).unwrap_or_else(|| panic!("{name}")).spec();
        assert_eq!(spec.title, title);
        let mut found = Vec::new();
        written(&spec.inputs, "", &mut found);
        let mut names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let mut expected: Vec<&str> = inputs.split_whitespace().collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected, "{name}");
        for (input, meaning) in &found {
            let input = bare(input);
            let own = meanings.get(&format!("{name}/{input}"));
            let expected = own.or_else(|| meanings.get(&input)).unwrap_or_else(|| panic!("{name}: {input}"));
            assert_eq!(meaning, expected, "{name}: {input}");
        }
    }
}

/// Returns the name of each input, true if it is required, true if it is secret, and its default.
fn connection_inputs(kind: &str) -> Vec<(String, bool, bool, String)> {
    let registry = builtin();
    let kind = registry.connection_type(kind).expect("it is shipped");
    let inputs = kind.inputs.iter().map(|input| {
        let default = input.spec.default.as_ref().map(Value::to_text).unwrap_or_default();
        (input.spec.name.clone(), input.spec.required, input.secret, default)
    });
    inputs.collect()
}

#[test]
fn the_connection_types_have_the_inputs_and_default_scopes_of_the_specification() {
    let row =
        |name: &str, required, secret, default: &str| (name.to_owned(), required, secret, default.to_owned());
    let neutral =
        [row("documentFormat", false, false, "wiki_doc_format"), row("requestIdHeader", false, false, "")];
    let basic = [
        row("email", true, false, ""),
        row("apiToken", false, true, ""),
        row("password", false, true, ""),
        row("host", true, false, ""),
    ];
    assert_eq!(connection_inputs("wiki.basic"), [basic.as_slice(), &neutral].concat());
    let granular = "offline_access delete:attachment:wiki read:attachment:wiki write:attachment:wiki \
        read:custom-content:wiki write:custom-content:wiki delete:custom-content:wiki read:page:wiki write:page:wiki \
        delete:page:wiki read:space:wiki";
    let oauth = [
        row("authUrl", true, false, ""),
        row("gateway", true, false, ""),
        row("clientId", true, false, ""),
        row("clientSecret", true, true, ""),
        row("scopes", false, false, granular),
        row("classicScopes", false, false, "false"),
        row("apiSiteOverride", false, false, ""),
        row("authorizeUrl", false, false, ""),
        row("tokenUrl", false, false, ""),
        row("product", false, false, "wiki"),
        row("pathSlug", false, false, "wiki"),
    ];
    let issuer = [row("issuer", false, false, "")];
    assert_eq!(connection_inputs("wiki.oauth"), [oauth.as_slice(), &neutral, &issuer].concat());
}

#[test]
fn the_requested_scopes_are_those_of_the_specification_with_the_product_name() {
    let registry = builtin();
    let kind = registry.connection_type("wiki.oauth").expect("it is shipped");
    let scopes = |more: &[(&str, Value)]| {
        let given = [
            ("authUrl", "https://auth.example.com"),
            ("gateway", "https://api.example.com"),
            ("clientId", "desk"),
            ("clientSecret", "hush"),
        ];
        let given = given.into_iter().map(|(name, value)| (name, Value::from(value)));
        let inputs = given.chain(more.iter().cloned()).collect();
        let resolved = kind.resolve("main", &inputs).expect("it resolves");
        resolved.oauth().expect("it has a client").scopes().join(" ")
    };
    assert!(scopes(&[]).starts_with("offline_access ") && !scopes(&[]).contains("read:wiki-user"));
    let classic = "read:wiki-user read:wiki-space.summary read:wiki-props read:wiki-content.all read:wiki-content.summary \
        read:wiki-content.permission read:wiki-groups readonly:content.attachment:wiki write:wiki-content \
        write:wiki-space write:wiki-file write:wiki-props manage:wiki-configuration search:wiki write:wiki-groups";
    assert_eq!(scopes(&[("classicScopes", Value::from(true))]), format!("{} {classic}", scopes(&[])));
    let own = scopes(&[("classicScopes", Value::from(true)), ("product", Value::from("acme"))]);
    assert_eq!(own, format!("{} {classic}", scopes(&[])).replace("wiki", "acme"));
}
