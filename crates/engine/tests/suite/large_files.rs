//! Files that stay on disk while an execution passes them on.

use std::time::Duration;

use engine::Engine;
use model::{Event, StepOutcome};
use pretty_assertions::assert_eq;
use trigger::webhook::Request;
use value::{CHUNK_SIZE, Data, Reserved, Value};

use crate::common::{Peer, Project, crash, soon, stop, until_suspended, workers};
use crate::hooks::{text, tokens};

/// Returns this many bytes that are not valid text.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at % 251).expect("a byte") ^ 0xa5).collect()
}

/// Builds a request whose body is a file on disk.
fn sent(engine: &Engine, content_type: &str, body: &[u8]) -> Request {
    let mut file = engine.ingress().files().create().expect("it begins");
    file.write(body).expect("it is written");
    let body = file.finish().expect("it is there");
    assert!(body.is_external());
    let headers = vec![("content-type".to_owned(), content_type.as_bytes().to_vec())];
    Request { method: "POST".to_owned(), headers, body, ..Request::default() }
}

fn form(file: &[u8]) -> Vec<u8> {
    let head = "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"a.png\"\r\n\
                content-type: image/png\r\n\r\n";
    [head.as_bytes(), file, b"\r\n--x--\r\n"].concat()
}

const FORM: &str = "multipart/form-data; boundary=x";

#[tokio::test]
async fn a_file_is_streamed_from_disk_as_body_and_form_part_even_after_a_crash() {
    let mut peer = Peer::new().await;
    let base = &peer.base;
    let upload = "${{ trigger.results.body.data.upload }}";
    let project = Project::with(&format!(
        "trigger: {{webhook: {{verify: none}}}}\nsteps:\n  - set: {{file: \"{upload}\"}}\n  - wait: 1h\n  \
         - action: http.request\n    with: {{method: PUT, url: \"{base}/body\", body: \"${{{{ vars.file }}}}\"}}\n  \
         - action: http.request\n    with: {{method: POST, url: \"{base}/form\", multipart: {{a: b, file: \"{upload}\"}}}}\n"
    ));
    let engine = project.start().await;
    let file = bytes(2 * CHUNK_SIZE + 100);
    let (live, _) = tokens(&engine);
    assert_eq!(engine.ingress().receive(&live, sent(&engine, FORM, &form(&file))).await.status, 200);
    until_suspended(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    project.clock.advance(Duration::from_secs(3600));
    let body = peer.next_request().await;
    assert_eq!((body.line.as_str(), body.header("content-type")), ("PUT /body", Some("image/png")));
    assert_eq!(body.header("content-length"), Some(file.len().to_string().as_str()));
    assert!(body.body == file, "not a byte is lost");
    body.answer(200, "{}").await;
    let form = peer.next_request().await;
    assert!(form.header("content-length").is_some_and(|length| length == form.body.len().to_string()));
    let found = form.body.windows(file.len()).any(|window| window == file);
    assert!(found && form.head.contains("multipart/form-data"), "it is a part of the form");
    form.answer(200, "{}").await;
    stop(engine).await;
}

#[tokio::test]
async fn a_file_response_is_a_handle_and_is_repeated_for_duplicates() {
    for steps in [
        "steps:\n  - respond: {file: \"${{ trigger.results.rawBody }}\"}\n",
        "steps: []\noutputs: ${{ trigger.results.rawBody }}\n",
    ] {
        let project = Project::with(&format!("trigger: {{webhook: {{mode: sync, verify: none}}}}\n{steps}"));
        let engine = project.start().await;
        let (live, _) = tokens(&engine);
        let file = bytes(CHUNK_SIZE + 1);
        for _ in 0..2 {
            let mut request = sent(&engine, "image/png", &file);
            request.headers.push(("idempotency-key".to_owned(), b"one".to_vec()));
            let answer = soon(engine.ingress().receive(&live, request)).await;
            assert!(answer.status == 200 && answer.body.is_external(), "{answer:?}");
            assert_eq!(
                (answer.header("content-type"), &answer.body),
                (Some("image/png"), &Data::from(file.clone()))
            );
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_file_inside_a_json_response_is_embedded_whole() {
    let project = Project::with(
        "trigger: {webhook: {mode: sync, verify: none}}\nsteps: []\n\
         outputs: {size: \"${{ trigger.results.rawBody.size }}\", file: \"${{ trigger.results.rawBody }}\"}\n",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, sent(&engine, "image/png", &bytes(1000)))).await;
    let body = answer.body.load(1 << 20, &Reserved::uncounted(1 << 20)).expect("the body is loaded");
    let body = String::from_utf8_lossy(&body);
    assert!(answer.status == 200 && body.contains(r#""encoding":"base64","data":"#), "{body}");
    stop(engine).await;
}

#[tokio::test]
async fn code_reads_file_bytes_up_to_a_limit_and_metadata_of_any_file() {
    workers();
    let project = Project::with(
        "trigger: {webhook: {mode: sync, verify: none, maxBody: 16MiB}}
steps:
  - code: |
      export default async (context, stepResults) => {
        const file = stepResults.trigger.results.body.data;
        return { size: file.size, first: stepResults.trigger.results.queryParameters.look ? file.data[0] : null };
      }
",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    for (size, look, expected) in [
        (CHUNK_SIZE, true, format!(r#"200 {{"size":{CHUNK_SIZE},"first":165}}"#)),
        (7 << 20, false, format!(r#"200 {{"size":{},"first":null}}"#, 7 << 20)),
        (7 << 20, true, "500".to_owned()),
    ] {
        let mut request = sent(&engine, "image/png", &bytes(size));
        request.raw_query = if look { "look=1".to_owned() } else { String::new() };
        let answer = text(&soon(engine.ingress().receive(&live, request)).await);
        assert!(answer.starts_with(&expected), "{answer}");
        assert!(
            expected != "500" || answer.contains("at most 6MiB of a file can be loaded into memory"),
            "{answer}"
        );
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_large_file_result_is_stored_outside_the_log() {
    let mut project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - {id: read, action: files.read, with: {path: large.bin, as: file}}\n",
    );
    project.settings.files_dir = Some(project.path("files"));
    let engine = project.start().await;
    let file = bytes(300 << 10);
    std::fs::create_dir(project.path("files")).expect("a folder");
    std::fs::write(project.path("files/large.bin"), &file).expect("it is written");
    let id = crate::common::start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    let events = engine.store().events(id).await.expect("they are read").expect("it is there");
    let results = events.iter().filter_map(|event| match event {
        Event::StepFinished { outcome: StepOutcome::Succeeded { result }, .. } => Some(result),
        _ => None,
    });
    let data: Vec<Data> = results.filter_map(|result| Some(found(result)?.data.clone())).collect();
    assert!(matches!(data.as_slice(), [Data::External(_)]), "{data:?}");
    assert_eq!(data[0], Data::from(file));
    stop(engine).await;
}

#[tokio::test]
async fn a_captured_file_is_saved_with_its_bytes() {
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: []\n");
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    let id = model::AutomationId::parse("test").expect("an id");
    let minute = Duration::from_secs(60);
    engine.ingress().listen(&id.clone().into(), minute, 1).await.expect("it listens");
    let file = bytes(CHUNK_SIZE);
    assert_eq!(engine.ingress().receive(&test, sent(&engine, "image/png", &file)).await.status, 200);
    let view =
        soon(engine.ingress().captures(&id.clone().into(), 0, minute)).await.expect("somebody has listened");
    let payload = model::Payload::clone(&view.captures.first().expect("it was captured").payload);
    engine.ingress().save_payload(&id.clone().into(), "first", payload, None).await.expect("it is saved");
    let saved =
        engine.ingress().saved_payload(&id.clone().into(), "first").await.expect("it is read").payload;
    let model::Payload::Webhook(saved) = saved else { panic!("a request is saved") };
    assert_eq!(saved.body.data.in_memory().map(|data| data.to_vec()), Some(file));
    stop(engine).await;
}

/// Returns the first file in a value.
fn found(value: &Value) -> Option<&value::File> {
    match value {
        Value::File(file) => Some(file),
        Value::Map(map) => map.iter().find_map(|(_, value)| found(value)),
        _ => None,
    }
}
