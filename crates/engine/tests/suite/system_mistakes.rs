//! Mistakes in connections to servers, in mail, in messages of brokers and in manifests: each is reported where it stands.

use authoring::{check_project, check_text};
use catalog::Catalog;
use pretty_assertions::assert_eq;
use text::diagnostic::Report;

use crate::common::workers;

fn catalog() -> Catalog {
    workers();
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("connections")).expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(format!("connections/{name}.yaml")), text).expect("it is written");
    };
    write(
        "box",
        "type: mail.imap\nwith: {host: imap.example.com, username: a, password: \"${{ secrets.p }}\"}\n",
    );
    write("bus", "type: nats.server\nwith: {host: n.example.com}\n");
    write(
        "queues",
        "type: amqp.server\nwith: {host: a.example.com, user: a, password: \"${{ secrets.p }}\"}\n",
    );
    write("cache", "type: redis.server\nwith: {host: r.example.com}\n");
    write(
        "files",
        "type: sftp.password\nwith: {host: s.example.com, user: a, password: \"${{ secrets.p }}\", hostKey: any}\n",
    );
    write(
        "bucket",
        "type: s3.keys\nwith: {endpoint: \"https://s.example.com\", bucket: b, accessKey: a, secretKey: \"${{ secrets.p }}\"}\n",
    );
    write(
        "base",
        "type: sql.postgres\nwith: {host: d.example.com, database: d, user: a, password: \"${{ secrets.p }}\"}\n",
    );
    write("book", "type: sql.sqlite\nwith: {file: books.db}\n");
    check_project(dir.path(), &[]).expect("the connectors load").catalog
}

/// Formats the errors and warnings of a file as `code text`, without those about the machine and the purpose of the file.
fn found(report: &Report) -> Vec<String> {
    let left_out = ["missing-secret", "unused-value", "no-retry", "unused-input", "not-built"];
    let found = report.diagnostics().iter().filter(|found| !left_out.contains(&found.code));
    found.map(|found| format!("{} {}", found.code, report.source().slice(found.span))).collect()
}

#[test]
fn mistakes_in_mail_and_messages_are_found_at_their_places() {
    let catalog = catalog();
    let check = |text: &str, expected: &[&str]| {
        let report = check_text(&catalog, "automations/test.yaml", text);
        assert_eq!(found(&report), expected, "\n{text}\n{}", report.render(false));
    };
    let mail = |action: &str, with: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps: [{{action: mail.{action}, connection: box, with: {{{with}}}}}]\n"
        )
    };
    check(&mail("mark", "uid: 1, uidValidity: 2"), &["wrong-input uid"]);
    check(
        &mail("mark", "uid: 1, uidValidity: 2, keywords: [a], removeKeywords: [a]"),
        &["wrong-input removeKeywords"],
    );
    check(&mail("mark", "uid: 1, uidValidity: 2, seen: true"), &[]);
    check(&mail("move", "uid: 1, uidValidity: 2, to: INBOX"), &["wrong-input to"]);
    check(&mail("move", "uid: 1, uidValidity: 2, mailbox: Archive, to: INBOX"), &[]);
    check(&mail("append", "mailbox: Drafts, content: no header"), &["wrong-input content"]);
    check(&mail("append", "mailbox: Drafts, content: {subject: a}"), &["wrong-input content"]);
    check(&mail("append", "mailbox: Drafts, content: \"Subject: a\\n\\nb\\n\""), &[]);
    check(&mail("get", "uid: 0, uidValidity: 1"), &["wrong-input 0"]);
    check(&mail("search", "mailbox: ''"), &["wrong-input mailbox"]);
    check(&mail("search", "since: '2026-02-01', before: '2026-01-01'"), &["wrong-input before"]);
    check(&mail("search", "since: '2026-02-01', before: '2026-02-01T08:00:00Z'"), &["wrong-input before"]);
    check(&mail("search", "since: '2026-01-31', before: '2026-02-01'"), &[]);
    check(&mail("search", "since: '${{ now() }}', before: '2026-02-01'"), &[]);
    let html = |select: &str| {
        format!(
            "trigger: {{manual: {{}}}}\ninputs: {{css: text}}\nsteps: [{{action: html.select, with: {{html: a, select: {{{select}}}}}}}]\n"
        )
    };
    check(&html("t: 'a >> b', u: '${{ inputs.css }}'"), &["wrong-input 'a >> b'"]);
    check(&html("t: {css: 'a:hover', attr: href}"), &["wrong-input 'a:hover'"]);
    check(&html("t: {css: a, atr: href}"), &["wrong-input a"]);
    check(&html("t: 'a > b', u: '${{ inputs.css }}'"), &[]);
    let amqp = |more: &str| {
        format!("trigger:\n  event: amqp.message\n  connection: queues\n{more}steps: [{{set: {{a: 1}}}}]\n")
    };
    check(&amqp("  with: {queue: p, maxBody: 90MiB}\n"), &["wrong-input 90MiB"]);
    check(&amqp("  with: {queue: p, maxBody: big}\n"), &["wrong-input big"]);
    check(&amqp("  with: {queue: p, maxBody: 8MiB}\n"), &[]);
    check(&amqp("  with: {queue: p}\n  poison: {to: p}\n"), &["conflicting-keys poison"]);
    check(&amqp("  with: {queue: p}\n  poison: {to: dead}\n"), &[]);
    let redis = |more: &str| {
        format!("trigger:\n  event: redis.message\n  connection: cache\n{more}steps: [{{set: {{a: 1}}}}]\n")
    };
    check(&redis("  with: {stream: 'shop:a.b', group: 'shop.a'}\n  start: all\n"), &[]);
    check(&redis("  with: {stream: p, group: g}\n  poison: {to: p}\n"), &["conflicting-keys poison"]);
    check(&redis("  with: {stream: p, group: g}\n  every: 1m\n"), &["unused-setting every"]);
    let nats = |with: &str| {
        format!(
            "trigger: {{event: nats.message, connection: bus, with: {{stream: S, {with}}}}}\nsteps: [{{set: {{a: 1}}}}]\n"
        )
    };
    check(&nats("consumer: a b"), &["wrong-input a b"]);
    check(&nats("consumer: a, subject: a..b"), &["wrong-input a..b"]);
    check(&nats("consumer: a-1, subject: 'a.*.>'"), &[]);
}

/// Inputs with a literal that no call can take: the action or event, its connection, the inputs, and the one that is wrong; empty if none is.
const LITERALS: &[(&str, &str, &str, &str)] = &[
    ("redis.set", "cache", "key: k, value: 1, ttl: 1h", ""),
    ("redis.set", "cache", "key: k, value: 1, ttl: '${{ inputs.text }}'", ""),
    ("redis.set", "cache", "key: k, value: 1, ttl: soon", "ttl"),
    ("redis.set", "cache", "key: k, value: 1, ttl: 60", "ttl"),
    ("redis.set", "cache", "key: k, value: 1, ttl: 0s", "ttl"),
    ("redis.set", "cache", "key: k, value: 1, ttl: -1h", "ttl"),
    ("redis.set", "cache", "key: k, value: 1, ttl: 40000d", "ttl"),
    ("redis.add", "cache", "stream: s, body: 1, fields: {body: a, more: '${{ inputs.text }}'}", "fields"),
    ("redis.add", "cache", "stream: s, body: '${{ inputs.text }}', fields: {more: a}", ""),
    ("nats.publish", "bus", "subject: 'orders.*'", "subject"),
    ("nats.publish", "bus", "subject: a, headers: {'a b': x, c: '${{ inputs.text }}'}", "headers"),
    ("nats.publish", "bus", "subject: a, headers: {Nats-Msg-Id: x}", "headers"),
    ("amqp.publish", "queues", "routingKey: LONG", "routingKey"),
    ("amqp.publish", "queues", "routingKey: a, type: LONG", "type"),
    ("amqp.message", "queues", "queue: LONG", "queue"),
    ("amqp.message", "queues", "queue: ''", "queue"),
    ("s3.get", "bucket", "key: a, range: x-y", "range"),
    ("s3.get", "bucket", "key: a, range: 9-3", "range"),
    ("s3.get", "bucket", "key: a, range: '100-'", ""),
    ("s3.put", "bucket", "key: a, content: {a: 1}", "content"),
    ("s3.put", "bucket", "key: a, content: x, metadata: {'a b': x}", "metadata"),
    ("s3.put", "bucket", "key: a, content: x, metadata: {a: ü, b: '${{ inputs.text }}'}", "metadata"),
    ("s3.delete", "bucket", "keys: []", "keys"),
    ("s3.delete", "bucket", "keys: ['']", "keys"),
    ("s3.presign", "bucket", "key: a, expires: 8d", "expires"),
    ("s3.objectChanged", "bucket", "overlap: soon", "overlap"),
    ("sftp.get", "files", "path: ''", "path"),
    ("sftp.put", "files", "path: a, content: [1]", "content"),
    ("sftp.move", "files", "from: a, to: ''", "to"),
    ("sftp.listArrived", "files", "path: a, settle: 2d", "settle"),
    ("sftp.fileArrived", "files", "path: a, settle: soon", "settle"),
    ("sftp.fileArrived", "files", "path: ''", "path"),
    ("mail.move", "box", "uid: 1, uidValidity: 2, to: ''", "to"),
    ("mail.received", "box", "mailbox: ''", "mailbox"),
    ("sheet.write", "", "sheets: []", "sheets"),
    ("sheet.write", "", "sheets: [{name: a/b, rows: '${{ inputs.text }}'}]", "sheets"),
    ("sheet.write", "", "sheets: [{name: a, rows: text}]", "sheets"),
    ("zip.pack", "", "files: [{name: ../a, content: '${{ inputs.text }}'}]", "files"),
    ("zip.pack", "", "files: [{name: a, content: x}, {name: a, content: z}]", "files"),
    ("gzip.pack", "", "content: {a: 1}", "content"),
    ("html.text", "", "html: {a: 1}", "html"),
    ("data.parseCsv", "", "data: '${{ inputs.text }}', quote: ','", "quote"),
    ("data.parseCsv", "", "data: text, encoding: utf-8", "encoding"),
    ("data.toCsv", "", "rows: {a: 1}", "rows"),
    ("data.toCsv", "", "rows: '${{ inputs.text }}', encoding: windows-1252", "encoding"),
    ("data.toCsv", "", "rows: '${{ inputs.text }}', encoding: windows-1252, as: '${{ inputs.text }}'", ""),
    ("sql.listRows", "base", "table: t, id: [], watermark: w", "id"),
    ("sql.listRows", "base", "table: t, id: [a], watermark: w, after: yesterday", "after"),
    ("sql.newRows", "base", "table: t, id: [a], watermark: w, overlap: soon", "overlap"),
    ("sql.newRows", "base", "table: t, id: [a], watermark: w, wake: changes", ""),
    ("sql.newRows", "book", "table: t, id: [a], watermark: w, wake: changes", "wake"),
    ("sql.insert", "book", "table: t, rows: {a: 1}", "rows"),
    ("sql.insert", "book", "table: t, rows: '${{ inputs.text }}', columns: [1]", "columns"),
];

#[test]
fn a_literal_that_no_call_takes_is_found_at_load() {
    let catalog = catalog();
    for (name, connection, with, wrong) in LITERALS {
        let with = with.replace("LONG", &"x".repeat(256));
        let connection = if connection.is_empty() { "" } else { &format!(", connection: {connection}") };
        let is_event = catalog.registry().event(name).is_some();
        let text = match is_event {
            true => format!(
                "trigger: {{event: {name}{connection}, with: {{{with}}}}}\nsteps: [{{set: {{a: 1}}}}]\n"
            ),
            false => format!(
                "trigger: {{manual: {{}}}}\ninputs: {{text: text}}\nsteps: [{{action: {name}{connection}, with: {{{with}}}}}]\n"
            ),
        };
        let report = check_text(&catalog, "automations/test.yaml", &text);
        let expected = if wrong.is_empty() { Vec::new() } else { vec![format!("wrong-input {wrong}")] };
        assert_eq!(found(&report), expected, "\n{text}\n{}", report.render(false));
    }
}

#[test]
fn triggers_that_share_messages_are_told_in_each_of_their_files() {
    workers();
    let taker = |event: &str, with: &str, more: &str| {
        format!(
            "{more}trigger: {{event: {event}, connection: bus, with: {{{with}}}}}\nsteps: [{{set: {{a: 1}}}}]\n"
        )
    };
    let check = |files: &[String], expected: &[&str]| {
        let dir = tempfile::tempdir().expect("a folder");
        for folder in ["connections", "automations"] {
            std::fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).expect("written");
        write("connections/bus.yaml", "type: nats.server\nwith: {host: n.example.com}\n");
        for (name, text) in ["a", "b", "c"].into_iter().zip(files) {
            write(&format!("automations/{name}.yaml"), text);
        }
        let checked = check_project(dir.path(), &[]).expect("the connectors load");
        let mut shared = Vec::new();
        for report in &checked.reports {
            let warnings = report.diagnostics().iter().filter(|found| found.code == "shared-messages");
            shared.extend(warnings.map(|found| {
                format!("{} {}", report.source().path(), found.message.replace("automations/", ""))
            }));
        }
        assert_eq!(shared, expected, "{files:?}");
    };
    let nats = |with: &str| taker("nats.message", with, "");
    let one = nats("stream: S, consumer: shop");
    check(
        &[one.clone(), one.clone()],
        &[
            "automations/a.yaml the consumer `shop` is taken by b.yaml:1 too: each message goes to one of them",
            "automations/b.yaml the consumer `shop` is taken by a.yaml:1 too: each message goes to one of them",
        ],
    );
    check(&[one.clone(), nats("stream: S, consumer: other"), nats("stream: T, consumer: shop")], &[]);
    check(&[one.clone(), nats("stream: S, consumer: '${{ env.HOME }}'")], &[]);
    check(&[one.clone(), taker("nats.message", "stream: S, consumer: shop", "enabled: false\n")], &[]);
    let subject = nats("stream: S, consumer: shop, subject: paid");
    let fails = "it can read one subject only, so a trigger with another one fails";
    check(
        &[one.clone(), subject],
        &[
            &format!("automations/a.yaml the consumer `shop` is taken by b.yaml:1 too: {fails}"),
            &format!("automations/b.yaml the consumer `shop` is taken by a.yaml:1 too: {fails}"),
        ],
    );
    let both = "triggers:
  - {id: x, event: amqp.message, connection: bus, with: {queue: q}}
  - {id: y, event: amqp.message, connection: bus, with: {queue: q}}
steps: [{set: {a: 1}}]
";
    check(
        &[both.to_owned()],
        &[
            "automations/a.yaml the queue `q` is taken by a.yaml:3 too: each message goes to one of them",
            "automations/a.yaml the queue `q` is taken by a.yaml:2 too: each message goes to one of them",
        ],
    );
}

#[test]
fn mistakes_in_connections_to_servers_are_found_at_their_places() {
    let catalog = catalog();
    let check = |text: &str, expected: &[&str]| {
        let report = check_text(&catalog, "connections/test.yaml", text);
        assert_eq!(found(&report), expected, "\n{text}\n{}", report.render(false));
    };
    let imap = |host: &str, more: &str| {
        format!(
            "type: mail.imap\nwith: {{host: \"{host}\", username: a, password: \"${{{{ secrets.p }}}}\"{more}}}\n"
        )
    };
    check(&imap("https://imap.example.com", ""), &["wrong-input host"]);
    check(&imap("imap.example.com:993", ""), &["wrong-input host"]);
    check(&imap("imap.example.com/mail", ""), &["wrong-input host"]);
    check(&imap("", ""), &["wrong-input host"]);
    for host in ["imap.example.com", "127.0.0.1", "::1", "[::1]"] {
        check(&imap(host, ""), &[]);
    }
    check(&imap("a.example.com", ", ca: none"), &["wrong-input ca"]);
    check(&imap("a.example.com", ", security: none, ca: \"${{ secrets.c }}\""), &["unused-setting ca"]);
    let amqp = |more: &str| {
        format!(
            "type: amqp.server\nwith: {{host: a.example.com, user: a, password: \"${{{{ secrets.p }}}}\"{more}}}\n"
        )
    };
    check(&amqp(", clientCert: \"${{ secrets.c }}\""), &["missing-input clientCert"]);
    check(&amqp(", clientCert: \"${{ secrets.c }}\", clientKey: \"${{ secrets.k }}\""), &[]);
    check(&amqp(", tls: none, ca: \"${{ secrets.c }}\""), &["unused-setting ca"]);
    let nats = |login: &str| format!("type: nats.server\nwith: {{host: a.example.com, {login}}}\n");
    check(
        &nats("token: \"${{ secrets.t }}\", user: a, password: \"${{ secrets.p }}\""),
        &["conflicting-keys token"],
    );
    check(&nats("user: a, password: \"${{ secrets.p }}\""), &[]);
}

/// A connector whose event subscribes and keeps the secret that the service gives.
const HOOK: &str = r#"connector: shop
title: Shop
version: 1.0.0
baseUrl: https://api.example.com
connections:
  token:
    title: Token
    inputs: {token: {type: text, required: true, secret: true}}
    auth: {header: {name: Authorization, prefix: "Bearer ", value: token}}
inputs:
  url: {type: text, description: The address.}
  topic: {type: text, description: The topic.}
  id: {type: text, description: The id.}
actions:
  subscribe:
    title: Subscribe
    request: POST /hooks
    inputs: {url: body url, topic: body topic}
    results: {type: object, open: true, fields: {id: integer, secret: text}}
    example: {with: {url: "https://h.example.com", topic: a}, request: POST /hooks, body: {url: "https://h.example.com", topic: a}, answer: {id: 1, secret: s}}
  unsubscribe:
    title: Unsubscribe
    request: DELETE /hooks/{id}
    inputs: {id: path}
    example: {with: {id: "1"}, request: DELETE /hooks/1}
events:
  changed:
    title: Changed
    inputs: [topic]
    hook:
      subscribe: subscribe
      url: url
      secretFrom: secret
      id: id
      unsubscribe: unsubscribe
      idInput: id
      verify: github
"#;

#[test]
fn paths_of_a_hook_that_the_result_does_not_have_are_found() {
    let catalog = catalog();
    for (old, new, expected) in [
        ("", "", None),
        ("secretFrom: secret", "secretFrom: secrt", Some("unknown-field secrt")),
        ("secretFrom: secret", "secretFrom: id", Some("wrong-place id")),
        ("      id: id\n", "      id: idd\n", Some("unknown-field idd")),
        ("      url: url\n", "      url: topic\n", Some("wrong-place topic")),
    ] {
        let text = HOOK.replacen(old, new, usize::from(!old.is_empty()));
        let report = check_text(&catalog, "connectors/shop.yaml", &text);
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(found(&report), expected, "\n{}", report.render(false));
    }
}

#[test]
fn a_choice_is_compared_with_its_options_by_filters_too() {
    let catalog = catalog();
    let check = |text: &str, expected: &[&str]| {
        let report = check_text(&catalog, "automations/test.yaml", text);
        assert_eq!(found(&report), expected, "\n{text}\n{}", report.render(false));
    };
    let text = |condition: &str| {
        format!(
            "trigger: {{event: mail.received, connection: box}}\nsteps: [{{if: \"{condition}\", set: {{a: 1}}}}]\n"
        )
    };
    let data = "trigger.results.body.data";
    let misspelt = ["never-equal creatd"];
    check(&text(&format!("{data} | selectattr('changeType', 'equalto', 'creatd') | list")), &misspelt);
    check(
        &text(&format!("{data} | map(attribute='changeType') | select('in', ['creatd']) | list")),
        &misspelt,
    );
    check(&text(&format!("'creatd' in {data} | map(attribute='changeType')")), &misspelt);
    check(&text(&format!("{data} | rejectattr('changeType', 'ne', 'created') | list")), &[]);
    check(&text(&format!("'updated' in {data} | map(attribute='changeType')")), &[]);
}

#[test]
fn the_data_of_a_broker_and_of_a_poll_have_types() {
    let catalog = catalog();
    let check = |text: &str, expected: &[&str]| {
        let report = check_text(&catalog, "automations/test.yaml", text);
        assert_eq!(found(&report), expected, "\n{text}\n{}", report.render(false));
    };
    let amqp = |with: &str, more: &str, read: &str| {
        format!(
            "trigger:\n  event: amqp.message\n  connection: queues\n  with: {{queue: p{with}}}\n{more}steps: [{{set: {{a: \"${{{{ {read} }}}}\"}}}}]\n"
        )
    };
    let data = "trigger.results.body.data";
    check(&amqp("", "", &format!("{data}.payload")), &["unknown-field payload"]);
    check(&amqp("", "", &format!("{data}.properties.sequence")), &["unknown-field sequence"]);
    check(&amqp(", parse: text", "", &format!("{data}.body.id")), &["unknown-field id"]);
    check(&amqp(", parse: file", "", &format!("{data}.body.name")), &["unknown-field name"]);
    check(&amqp("", "  deliver: batch\n", &format!("{data}.body")), &["unknown-field body"]);
    check(&amqp("", "  if: trigger.results.body.data.redelivrd\n", "1"), &["unknown-field redelivrd"]);
    check(&amqp("", "  dedup: {by: item.headres.id}\n", "1"), &["unknown-field headres"]);
    check(&amqp("", "  dedup: {by: item.headers.id}\n", &format!("{data}.body.any.field")), &[]);
    check(&amqp("", "  deliver: batch\n", &format!("{data}[0].properties.messageId")), &[]);
    let mail = |more: &str, read: &str| {
        format!(
            "trigger:\n  event: mail.received\n  connection: box\n{more}steps: [{{set: {{a: \"${{{{ {read} }}}}\"}}}}]\n"
        )
    };
    let each = "  deliver: each\n";
    check(&mail(each, &format!("{data}.record.id")), &["unknown-field id"]);
    check(&mail(each, &format!("{data}.subject")), &["unknown-field subject"]);
    check(&mail("", &format!("{data}.record.uid")), &["unknown-field record"]);
    check(&mail(each, &format!("{data}.changeType == 'creatd'")), &["never-equal creatd"]);
    check(&mail(each, &format!("{data}.record.from.address")), &[]);
    check(&mail("", &format!("{data}[0].record.subject")), &[]);
}
