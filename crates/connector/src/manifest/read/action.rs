//! Reads the actions of a manifest: a request line, and the location of each input in the request.

use std::sync::Arc;

use ::http::Method;
use model::{ActionSpec, Effect, InputSpec, ResultType};
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Entry, Field, MapReader, Node, Text};
use value::Value;

use super::input::DeclaredInput;
use super::types::Types;
use super::{check_example, check_identifier, graphql, hosts, operation, read_example, service, upload};
use crate::action::Action;
use crate::http::{BodyFormat, RequestRules, decode};
use crate::manifest::interpret::fits_text;
use crate::manifest::{
    Definition, Encoding, Example, Head, Idempotency, InputPlacement, Paging, Piece, RequestLocation,
    RestAction, fetch_all, page,
};

/// The methods that a request line may have.
const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// Reads the `actions` section.
pub(super) fn read(
    field: Field<'_, '_>,
    head: &Arc<Head>,
    declared: &[DeclaredInput],
    types: &Types<'_, '_>,
    diagnostics: &Diagnostics,
) -> Vec<Arc<dyn Action>> {
    let entries = field.entries().into_iter().flatten();
    entries.filter_map(|entry| action(entry, head, declared, types, diagnostics)).collect()
}

fn action(
    entry: &Entry,
    head: &Arc<Head>,
    declared: &[DeclaredInput],
    types: &Types<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<Arc<dyn Action>> {
    check_identifier(&entry.key, entry.key_span, diagnostics);
    let mut reader = MapReader::new(&entry.value, "an action", diagnostics)?;
    let title = reader.required("title").name().unwrap_or_default().to_owned();
    let description = reader.take("description").name().map(str::to_owned);
    let line = reader.required("request").text().and_then(|text| request_line(text, diagnostics));
    let graphql = reader.take("graphql").map("a GraphQL call").and_then(graphql::read);
    let mut wired = wired(reader.take("inputs"), declared, diagnostics);
    let mut fixed = fixed(reader.take("fixed"), diagnostics);
    let encoding = encoding(reader.take("encoding"), diagnostics);
    let is_download = download(&mut reader);
    let answer = answer_format(reader.take("answer"), is_download);
    let operation = operation::read(&mut reader);
    let upload = upload::read(&mut reader, diagnostics);
    upload::check(upload.as_ref(), &wired, &reader, diagnostics);
    let pages = pages(reader.take("paging"), head, diagnostics);
    let effect = reader.take("effect").one_of(&[("read", Effect::Read), ("write", Effect::Write)]);
    let (mut results, result) = declared_results(reader.take("results"), types, answer, is_download);
    let mut example = reader.required("example").map("an example").map(read_example);
    let own_key = service::idempotency(reader.take("idempotency"), diagnostics);
    let redirects = redirect_hosts(reader.take("redirect"), diagnostics);
    let line_span = reader.key_span("request");
    let answers = results.clone();
    if let Some(paging) = &pages {
        check_pages(paging, &wired, reader.key_span("paging"), diagnostics);
        results = page::with_cursor(results);
    }
    reader.finish();
    let line = line?;
    check_method(&line, line_span, (graphql.is_some(), is_download, upload.is_some()), diagnostics);
    graphql::check(graphql.as_ref(), &wired, diagnostics);
    if let Some(call) = &graphql {
        graphql::add_query(call, &mut fixed, example.as_mut().map(|(example, _)| example));
    }
    let operation = operation.and_then(|draft| draft.checked(&wired, diagnostics));
    check_places(&line, line_span, &mut wired, &fixed, diagnostics);
    let (mut specs, wires): (Vec<_>, _) = wired.into_iter().map(|wired| (wired.spec, wired.wire)).unzip();
    add_list_inputs(&mut specs, pages.is_some());
    let spec = ActionSpec {
        name: format!("{}.{}", head.name, entry.key),
        title,
        description,
        effect: effect.unwrap_or_else(|| usual_effect(&line, graphql.as_ref())),
        connections: head.connection_types.clone(),
        connection_required: head.connection_required,
        inputs: specs,
        result,
        results,
        example: example.as_ref().map_or(Value::Null, |(example, _)| Value::from(example.with.clone())),
    };
    let definition = Definition {
        spec,
        method: line.method,
        path: line.path.into_iter().map(|(piece, _)| piece).collect(),
        query: line.query,
        wires,
        fixed,
        encoding: encoding.unwrap_or(Encoding::Json),
        answer,
        is_download,
        answers,
        paging: pages,
        operation,
        upload,
        is_graphql: graphql.is_some(),
        rules: action_rules(head, own_key.as_ref(), redirects),
        idempotency: own_key.unwrap_or_else(|| head.idempotency.clone()),
        example_answer: example.as_ref().and_then(|(example, _)| example.answer.clone()),
        example_status: example.as_ref().and_then(|(example, _)| example.status.clone()),
    };
    Some(checked(head, definition, example.as_ref(), diagnostics))
}

/// Returns the action after the checks of its example.
fn checked(
    head: &Arc<Head>,
    definition: Definition,
    example: Option<&(Example, &Node)>,
    diagnostics: &Diagnostics,
) -> Arc<dyn Action> {
    if let Some((Example { answer: Some(answer), .. }, node)) = example {
        check_answer(&definition, head, answer, node, diagnostics);
    }
    if let Some((example, node)) = example {
        operation::check_example(&definition, head, example, node, diagnostics);
    }
    let action: Arc<dyn Action> = Arc::new(RestAction { head: head.clone(), definition });
    // If the action has other errors, its example would only repeat them.
    if let (0, Some((example, node))) = (diagnostics.error_count(), example) {
        check_example(&*action, example, node, diagnostics);
    }
    action
}

fn answer_format(field: Field<'_, '_>, is_download: bool) -> BodyFormat {
    let format = field.choice(&BodyFormat::NAMES).map_or(BodyFormat::Json, BodyFormat::parse);
    if is_download { BodyFormat::Binary } else { format }
}

/// Reads the type of the result, and its description.
fn declared_results(
    field: Field<'_, '_>,
    types: &Types<'_, '_>,
    answer: BodyFormat,
    is_download: bool,
) -> (ResultType, Option<String>) {
    let (results, result) = types.results(field).unzip();
    let result = result.or_else(|| is_download.then(|| "the file".to_owned()));
    (results.unwrap_or_else(|| answered(answer)), result)
}

/// Reads `download`, beside which nothing can say what the answer is.
fn download(reader: &mut MapReader<'_, '_>) -> bool {
    for other in ["answer", "results", "paging", "graphql"] {
        reader.at_most_one_of(&["download", other]);
    }
    reader.take("download").bool().unwrap_or(false)
}

/// Adds the inputs of every list that the action does not declare itself, if the action is a list.
fn add_list_inputs(specs: &mut Vec<InputSpec>, is_list: bool) {
    let mut own = if is_list { fetch_all::inputs() } else { Vec::new() };
    own.retain(|own| !specs.iter().any(|spec| spec.name == own.name));
    specs.extend(own);
}

fn usual_effect(line: &Line, graphql: Option<&graphql::GraphqlCall>) -> Effect {
    let is_read = match graphql {
        Some(call) => !call.query.trim_start().starts_with("mutation"),
        None => matches!(line.method, Method::GET | Method::HEAD | Method::OPTIONS),
    };
    if is_read { Effect::Read } else { Effect::Write }
}

/// Returns the rules of the action's requests: its own, else the connector's.
fn action_rules(
    head: &Head,
    own_key: Option<&Idempotency>,
    redirects: Option<Vec<String>>,
) -> Arc<RequestRules> {
    if own_key.is_none() && redirects.is_none() {
        return head.rules.clone();
    }
    Arc::new(own_key.unwrap_or(&head.idempotency).rules(head.rules.rate.clone(), redirects))
}

/// Reads the encoding of the body: a word, or how a form writes lists and maps: `{form: brackets}`.
fn encoding(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Encoding> {
    let node = field.node()?;
    if node.as_map().is_none() {
        let words = [("json", Encoding::Json), ("form", Encoding::Form), ("multipart", Encoding::Multipart)];
        return field.one_of(&words);
    }
    let mut reader = MapReader::new(node, "an encoding", diagnostics)?;
    let form = reader.required("form");
    let form = form.one_of(&[
        ("brackets", Encoding::BracketedForm),
        ("json", Encoding::JsonForm),
        ("repeat", Encoding::Form),
    ]);
    reader.finish();
    form
}

/// Reports a request that cannot carry a query, downloads nothing, or begins no upload.
fn check_method(
    line: &Line,
    line_span: Span,
    (is_graphql, is_download, is_upload): (bool, bool, bool),
    diagnostics: &Diagnostics,
) {
    let (message, help) = match &line.method {
        method if is_graphql && *method != Method::POST => {
            (format!("a {method} carries no GraphQL query"), "write `POST` and the path")
        }
        method if is_upload && !matches!(*method, Method::POST | Method::PUT | Method::PATCH) => {
            (format!("a {method} begins no upload"), "write `POST`, `PUT` or `PATCH` and the path")
        }
        method if is_download && *method != Method::GET => {
            (format!("a {method} downloads nothing"), "write `GET` and the path")
        }
        _ => return,
    };
    diagnostics.push(Diagnostic::error("wrong-place", message, line_span).help(help));
}

/// Reads the hosts to which the service may redirect a request.
fn redirect_hosts(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<String>> {
    let mut reader = field.map("a redirect")?;
    let hosts = hosts::read(reader.required("hosts"), diagnostics);
    reader.finish();
    Some(hosts)
}

/// Reports an answer in the example that is not of the declared type.
fn check_answer(
    definition: &Definition,
    head: &Head,
    answer: &Value,
    node: &Node,
    diagnostics: &Diagnostics,
) {
    let problems = definition.answer_problems(head, answer);
    if problems.is_empty() {
        return;
    }
    let span = node.get("answer").map_or_else(|| node.head(), Node::head);
    let message = format!("the answer of the example does not fit the action: {}", problems.join("; "));
    diagnostics.push(Diagnostic::error("wrong-example", message, span));
}

/// Returns the type of responses of an action that declares none.
fn answered(answer: BodyFormat) -> ResultType {
    match answer {
        BodyFormat::Text => ResultType::Text,
        BodyFormat::Binary => ResultType::File,
        BodyFormat::Json | BodyFormat::Auto => ResultType::Any,
    }
}

/// A request line: `GET /wiki/api/v2/pages/{pageId}?with=constants`.
pub(super) struct Line {
    pub(super) method: Method,
    /// The parts of the path with their positions.
    pub(super) path: Vec<(Piece, Span)>,
    pub(super) query: Vec<(String, String)>,
}

pub(super) fn request_line(text: &Text, diagnostics: &Diagnostics) -> Option<Line> {
    let whole = text.locate_span(0, text.value.len());
    let refuse = |message: String, span: Span| {
        let help = "write a method and a path, like `GET /pages/{pageId}`";
        diagnostics.push(Diagnostic::error("invalid-request", message, span).help(help));
        None
    };
    let Some((word, target)) = text.value.split_once(' ') else {
        return refuse("this is not a request line".to_owned(), whole);
    };
    if !METHODS.contains(&word) {
        let span = text.locate_span(0, word.len());
        let diagnostic = Diagnostic::error("unknown-value", format!("`{word}` is not a method"), span);
        diagnostics.push(diagnostic.expected_names(word, METHODS));
        return None;
    }
    let method = Method::from_bytes(word.as_bytes()).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/{}:,;=+!$()*'%@".contains(c);
    if !path.starts_with('/') || path.starts_with("//") || !path.chars().all(plain) {
        return refuse(format!("`{path}` is not a path that begins with one `/`"), whole);
    }
    let offset = word.len() + 1;
    let Some(path) = pieces(path, |start, end| text.locate_span(offset + start, offset + end)) else {
        return refuse("a `{` of the path has no `}`, or no name before it".to_owned(), whole);
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    });
    Some(Line { method, path, query: query.collect() })
}

fn pieces(path: &str, span: impl Fn(usize, usize) -> Span) -> Option<Vec<(Piece, Span)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = path[at..].find('{').map(|position| at + position) {
        let close = open + path[open..].find('}')?;
        let name = &path[open + 1..close];
        if name.is_empty() || name.contains('{') || path[at..open].contains('}') {
            return None;
        }
        if open > at {
            found.push((Piece::Text(path[at..open].to_owned()), span(at, open)));
        }
        found.push((Piece::Input(name.to_owned()), span(open, close + 1)));
        at = close + 1;
    }
    if path[at..].contains('}') {
        return None;
    }
    if at < path.len() {
        found.push((Piece::Text(path[at..].to_owned()), span(at, path.len())));
    }
    Some(found)
}

/// An input of an action, as read.
pub(super) struct Wired {
    pub(super) spec: InputSpec,
    pub(super) wire: InputPlacement,
    pub(super) span: Span,
}

fn wired(field: Field<'_, '_>, declared: &[DeclaredInput], diagnostics: &Diagnostics) -> Vec<Wired> {
    let mut inputs = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let mut meant = (entry.key.as_str(), entry.key_span);
        let (mut required, mut description, mut required_unless) = (None, None, None);
        let places = if entry.value.as_map().is_some() {
            let Some(mut reader) = MapReader::new(&entry.value, "an input of an action", diagnostics) else {
                continue;
            };
            let named = reader.take("use");
            if let (Some(name), Some(span)) = (named.name(), named.span()) {
                meant = (name, span);
            }
            required = reader.take("required").bool();
            required_unless = unless(reader.take("requiredUnless"), diagnostics);
            description = reader.take("description").name().map(str::to_owned);
            let places = places(reader.required("to"), diagnostics);
            reader.finish();
            places
        } else {
            places(Field::new(&entry.value, &entry.key, diagnostics), diagnostics)
        };
        let Some(declared) = declared.iter().find(|input| input.spec.name == meant.0).or_else(|| {
            let message = format!("`{}` is not an input of this connector", meant.0);
            let names = declared.iter().map(|input| input.spec.name.as_str());
            let diagnostic = Diagnostic::error("unknown-input", message, meant.1);
            diagnostics.push(
                diagnostic.expected_names(meant.0, names).help("declare it under `inputs` at the head"),
            );
            None
        }) else {
            continue;
        };
        declared.used.set(true);
        let is_path = places.contains(&RequestLocation::Path);
        let mut spec = InputSpec { name: entry.key.clone(), ..declared.spec.clone() };
        spec.required = is_path || required.unwrap_or(spec.required);
        spec.description = description.or(spec.description);
        if spec.required {
            spec.default = None;
        }
        let omit = spec.default.clone().filter(|_| declared.omit_default);
        let wire = InputPlacement {
            input: entry.key.clone(),
            places,
            omit,
            join: declared.join.clone(),
            split: declared.split.clone(),
            not_empty: declared.not_empty,
            required_unless,
        };
        inputs.push(Wired { spec, wire, span: entry.key_span });
    }
    inputs
}

/// Reads `{other: value}`: the other input, and the value with which this one is optional.
fn unless(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<(String, String)> {
    let span = field.span();
    let entries: Vec<&Entry> = field.entries()?.iter().collect();
    let [entry] = entries.as_slice() else {
        let message = "`requiredUnless` names one input and its value";
        diagnostics.push(
            Diagnostic::error("wrong-place", message, span.unwrap_or_default())
                .help("write it like `requiredUnless: {status: draft}`"),
        );
        return None;
    };
    let value = Field::new(&entry.value, &entry.key, diagnostics).string()?.to_owned();
    Some((entry.key.clone(), value))
}

fn places(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<RequestLocation> {
    let items = field.one_or_more().unwrap_or_default();
    items.into_iter().filter_map(|item| item.text().and_then(|text| place(text, diagnostics))).collect()
}

/// Reads a location: `path`, `query`, `query name`, `header`, `header Name`, `body` or `body path.in.it`.
fn place(text: &Text, diagnostics: &Diagnostics) -> Option<RequestLocation> {
    let (kind, name) = text.value.split_once(' ').unwrap_or((&text.value, ""));
    let name = Some(name.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
    match (kind, name) {
        ("path", None) => Some(RequestLocation::Path),
        ("upload", None) => Some(RequestLocation::Upload),
        ("query", name) => Some(RequestLocation::Query(name)),
        ("header", name) => Some(RequestLocation::Header(name)),
        ("variable", Some(name)) => {
            Some(RequestLocation::Body(Some(vec![graphql::VARIABLES.to_owned(), name])))
        }
        ("body", path) => {
            Some(RequestLocation::Body(path.map(|path| path.split('.').map(str::to_owned).collect())))
        }
        _ => {
            let message = format!("`{}` is no place in a request", text.value);
            let help = "write `path`, `query name`, `header Name` or `body path.in.it`; `query`, `header` and `body` \
                        alone take a whole map";
            let span = text.locate_span(0, text.value.len());
            diagnostics.push(Diagnostic::error("unknown-place", message, span).help(help));
            None
        }
    }
}

fn fixed(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(RequestLocation, Value)> {
    let mut fixed = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let (kind, name) = entry.key.split_once(' ').unwrap_or((&entry.key, ""));
        let name = name.trim().to_owned();
        let place = match kind {
            _ if name.is_empty() => None,
            "query" => Some(RequestLocation::Query(Some(name))),
            "header" => Some(RequestLocation::Header(Some(name))),
            "body" => Some(RequestLocation::Body(Some(name.split('.').map(str::to_owned).collect()))),
            _ => None,
        };
        match place {
            Some(place) => fixed.push((place, Value::from_serde(entry.value.to_json()))),
            None => {
                let message = format!("`{}` is no place for a value that is always sent", entry.key);
                let help = "write `query name`, `header Name` or `body path.in.it`";
                diagnostics.push(Diagnostic::error("unknown-place", message, entry.key_span).help(help));
            }
        }
    }
    fixed
}

/// Checks that the path and the inputs match, and that each input fits its locations.
fn check_places(
    line: &Line,
    line_span: Span,
    wired: &mut [Wired],
    fixed: &[(RequestLocation, Value)],
    diagnostics: &Diagnostics,
) {
    let error = |code, message: String, span| diagnostics.push(Diagnostic::error(code, message, span));
    for (piece, span) in &line.path {
        let Piece::Input(name) = piece else { continue };
        if !wired
            .iter()
            .any(|input| input.spec.name == *name && input.wire.places.contains(&RequestLocation::Path))
        {
            let message = format!("the path names `{name}`, which no input fills");
            let help = format!("add `{name}: path` to the `inputs` of the action");
            diagnostics.push(Diagnostic::error("missing-path-input", message, *span).help(help));
        }
    }
    for input in wired.iter() {
        let name = &input.spec.name;
        if let Some((other, _)) = &input.wire.required_unless
            && !wired.iter().any(|input| input.spec.name == *other)
        {
            error("unknown-input", format!("`{other}` is not an input of this action"), input.span);
        }
        let is_named =
            line.path.iter().any(|(piece, _)| matches!(piece, Piece::Input(piece) if piece == name));
        for place in &input.wire.places {
            let (is_text, is_map) =
                (fits_text(&input.spec.kind), input.spec.kind.describe().starts_with("map"));
            match place {
                RequestLocation::Path if !is_named => {
                    let message = format!("the path has no `{{{name}}}` for this input");
                    let diagnostic = Diagnostic::error("missing-path-input", message, input.span);
                    diagnostics.push(diagnostic.related(line_span, "the path is here"));
                }
                RequestLocation::Path
                | RequestLocation::Query(Some(_))
                | RequestLocation::Header(Some(_))
                    if !is_text =>
                {
                    let words = input.spec.kind.describe();
                    error(
                        "wrong-place",
                        format!("a {words} cannot go there; send it in the body"),
                        input.span,
                    );
                }
                RequestLocation::Query(None) | RequestLocation::Header(None) if !is_map => {
                    error(
                        "wrong-place",
                        "only a map can be spread there; name the parameter".to_owned(),
                        input.span,
                    );
                }
                RequestLocation::Body(_) if line.method == Method::GET || line.method == Method::HEAD => {
                    error("wrong-place", format!("a {} carries no body", line.method), input.span);
                }
                _ => {}
            }
        }
    }
    let bodies =
        || wired.iter().flat_map(|input| input.wire.places.iter().map(move |place| (place, input.span)));
    let whole = bodies().find(|(place, _)| matches!(place, RequestLocation::Body(None)));
    let has_parts = bodies().any(|(place, _)| matches!(place, RequestLocation::Body(Some(_))))
        || fixed.iter().any(|(place, _)| matches!(place, RequestLocation::Body(_)));
    if let Some((_, span)) = whole.filter(|_| has_parts) {
        error("wrong-place", "this is the whole body, so nothing else can go into it".to_owned(), span);
    }
}

/// Reads the pagination of an action: `true` for that of the connector, or a mapping with another path to the items.
fn pages(field: Field<'_, '_>, head: &Head, diagnostics: &Diagnostics) -> Option<Paging> {
    let node = field.node()?;
    let items = if node.as_map().is_some() {
        let mut reader = MapReader::new(node, "paging", diagnostics)?;
        let items = reader.required("items").name().map(str::to_owned);
        reader.finish();
        items
    } else {
        if !field.bool()? {
            return None;
        }
        None
    };
    let Some(paging) = &head.paging else {
        let message = "this connector declares no pagination";
        let diagnostic = Diagnostic::error("missing-paging", message, field.span().unwrap_or_default());
        diagnostics.push(diagnostic.help("add `paging` at the head"));
        return None;
    };
    Some(Paging { items: items.or_else(|| paging.items.clone()), ..paging.clone() })
}

fn check_pages(paging: &Paging, wired: &[Wired], span: Span, diagnostics: &Diagnostics) {
    if !wired.iter().any(|input| input.spec.name == paging.input) {
        let message = format!("a paginated list needs the input `{}`", paging.input);
        let help = format!("add `{}: query …` to the `inputs` of the action", paging.input);
        diagnostics.push(Diagnostic::error("missing-paging", message, span).help(help));
    }
}
