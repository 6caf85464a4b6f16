//! The analysis of modules, and the errors of texts that are not modules.

use pretty_assertions::assert_eq;

use super::check;
use crate::module_info::{Export, ModuleInfo};

fn module_info(code: &str) -> ModuleInfo {
    check(code).expect("the code is good")
}

fn error(code: &str) -> String {
    let errors = check(code).expect_err("the code is bad");
    let lines: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.at, error.message)).collect();
    lines.join("\n")
}

fn references(code: &str) -> Vec<String> {
    let show = |reference: crate::module_info::Reference| {
        let mark = if reference.optional { "?" } else { "" };
        format!("{}{mark} {}+{}", reference.path.join("."), reference.at, reference.length)
    };
    module_info(code).references.into_iter().map(show).collect()
}

fn keys(code: &str) -> Vec<String> {
    let show = |key: crate::module_info::StateKey| {
        format!(
            "{}{}{}",
            key.key,
            if key.read { " read" } else { "" },
            if key.written { " written" } else { "" }
        )
    };
    module_info(code).state.into_iter().map(show).collect()
}

#[test]
fn every_form_of_exported_function_is_recognized() {
    for code in [
        "export default async (context, results) => 1",
        "export default function (context, results) {}",
        "export default async function name(context, results) {}",
        "const run = (context, results) => 1;\nexport default run;",
        "async function run(context, results) {}\nexport { run as default };",
        "export default ((context, results) => 1)",
    ] {
        let module_info = module_info(code);
        assert_eq!(module_info.export, Some(Export::Default), "{code}");
        assert_eq!(
            module_info.parameters,
            [Some("context".to_owned()), Some("results".to_owned())],
            "{code}"
        );
    }
    let assigned = module_info("const go = (context, { list }) => 1;\nmodule.exports = go;");
    assert_eq!(
        (assigned.export, assigned.parameters),
        (Some(Export::ModuleExports), vec![Some("context".to_owned()), None])
    );
    assert_eq!(module_info("const a = 1;").export, None);
    assert_eq!(module_info("export const a = 1; export function b() {}").export, None);
}

#[test]
fn an_export_that_is_not_a_function_is_reported_at_its_position() {
    let message = "and a function is wanted: `export default async (context, stepResults) => { … }`";
    assert_eq!(error("export default { run() {} }"), format!("1:16: the code exports an object, {message}"));
    assert_eq!(
        error("const a = [];\nexport default a;"),
        format!("1:11: the code exports a list, {message}")
    );
    assert_eq!(error("module.exports = class {}"), format!("1:18: the code exports a class, {message}"));
    assert_eq!(
        error("export default function* () {}"),
        format!("1:16: the code exports a generator, {message}")
    );
}

#[test]
fn references_are_found_in_every_notation() {
    let code = "export default (context, stepResults) => {
  const a = stepResults.list.results.length;
  const b = stepResults[\"other\"].results;
  const { third, fourth: { results } } = stepResults;
  return stepResults.fifth?.results ?? [stepResults.sixth || stepResults[a]];
}";
    assert_eq!(
        references(code),
        [
            "list.results.length 2:25+4",
            "other.results 3:25+7",
            "third 4:11+5",
            "fourth.results 4:18+6",
            "fifth.results? 5:22+5",
            "sixth? 5:53+5",
        ]
    );
}

#[test]
fn references_of_a_pattern_in_the_parameters_are_found() {
    assert_eq!(
        references("export default ({ logger }, { list: { results }, trigger = {} }) => results"),
        ["trigger? 1:50+7", "list.results 1:31+4"]
    );
}

#[test]
fn a_shadowed_name_is_not_a_reference() {
    assert_eq!(
        references("export default (c, results) => [1].map((results) => results.typo)"),
        Vec::<String>::new()
    );
}

#[test]
fn columns_count_characters() {
    assert_eq!(references("export default (c, r) => '… ä' + r.list.results"), ["list.results 1:36+4"]);
}

#[test]
fn state_keys_are_found() {
    let code = "export default async (context) => {
  const seen = context.state.get(\"seen\");
  context.state.set('seen', 1);
  context.state.delete(`old`);
  const { state } = context;
  state.set(\"fresh\", context.state.get(context.stepId));
}";
    assert_eq!(keys(code), ["seen read written", "old written", "fresh written"]);
    let computed: Vec<String> = module_info(code).computed_keys.iter().map(ToString::to_string).collect();
    assert_eq!(computed, ["6:40"]);
    assert_eq!(keys("export default ({ state: s }) => s.get('a')"), ["a read"]);
    assert_eq!(keys("const state = new Map();\nexport default () => state.get('a')"), Vec::<String>::new());
}

#[test]
fn typescript_types_are_rejected_with_an_explanation() {
    let types = "code is JavaScript and takes no types";
    for (code, at) in [
        ("export default async (context: Context) => {}", "1:30"),
        ("export default async (context, results): Promise<any> => {}", "1:40"),
        ("const x: number = 1;\nexport default () => x", "1:8"),
        ("let a;\nlet y: string;\nexport default () => x", "2:6"),
        ("interface A { b: string }\nexport default () => 1", "1:1"),
        ("export default (c) => { return c as string }", "1:34"),
        ("type T = { a: string };\nexport default () => 1", "1:6"),
        ("enum E { A, B }\nexport default () => 1", "1:1"),
        ("export default (c) => c!.x", "1:24"),
        ("function f<T>(a) { return a }\nexport default (c) => 1", "1:11"),
        ("export default (a?: string) => 1", "1:18"),
        ("class A { private x = 1 }\nexport default () => 1", "1:19"),
        ("import type { X } from 'y';\nexport default () => 1", "1:13"),
        ("const f = <T,>(a: T) => a;\nexport default () => 1", "1:11"),
        ("const x = y satisfies Z;\nexport default () => 1", "1:13"),
        ("export interface Foo { a: string }\nexport default () => 1", "1:18"),
        ("const a = new Map<string, number>();\nexport default () => a", "1:33"),
    ] {
        let error = error(code);
        assert!(error.starts_with(&format!("{at}: {types}")), "{code}\n{error}");
    }
}

#[test]
fn other_syntax_errors_keep_the_engines_message() {
    assert_eq!(error("export default (a) => { const b = {x: 1; y: 2}; }"), "1:40: Unexpected token ';'");
    assert_eq!(error("export default (a) => { return a ? b; }"), "1:37: Unexpected token ';'");
    assert_eq!(error("return 1"), "1:1: return not in a function");
}

#[test]
fn imports_are_rejected_with_an_explanation() {
    let message = "code has no other modules to import: write what it needs into it";
    assert_eq!(error("const a = 1;\nimport b from 'b';\nexport default () => 1"), format!("2:1: {message}"));
    assert_eq!(error("export * from 'b'"), format!("1:1: {message}"));
    assert_eq!(error("export { b as default } from 'b'"), format!("1:1: {message}"));
}

#[test]
fn deep_nesting_and_many_references_are_bounded() {
    let deep = format!("export default () => {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(check(&deep).is_err());
    let long = format!("export default (c, r) => [{}]", "r.a,".repeat(20_000));
    assert_eq!(module_info(&long).references.len(), 2_000);
}

#[test]
fn a_parameter_passed_on_or_destructured_with_rest_is_read_whole() {
    let whole = |code: &str| module_info(code).whole;
    for code in [
        "export default (c, r) => JSON.stringify(r)",
        "export default (c, r) => ({ r })",
        "export default (c, r) => r[c.stepId]",
        "export default (c, { list, ...rest }) => rest",
        "export default (c, { [c.stepId]: x }) => x",
        "export default (...all) => all[1].list",
        "export default function () { return arguments[1]; }",
        "const wrap = (f) => f;\nexport default wrap((c, r) => r.list);",
        "export default (c, r) => { const copy = r; return copy.list; }",
    ] {
        assert!(whole(code), "{code}");
    }
    for code in [
        "export default (c, r) => r.list.results",
        "export default (c, { list: { results } }) => results",
        "export default (c, r) => { const { list } = r; return list; }",
        "export default () => 1",
        "export default (c, r) => r['list'][c.stepId]",
    ] {
        assert!(!whole(code), "{code}");
    }
}
