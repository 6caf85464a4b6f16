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
