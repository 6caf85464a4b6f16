//! Environment variables that files must not read.

use authoring::check_text;
use pretty_assertions::assert_eq;

use crate::checking::{catalog, problems};

#[test]
fn files_cannot_read_the_daemons_own_variables() {
    for name in
        ["COGWORK_MASTER_KEY", "COGWORK_ADMIN_TOKEN", "COGWORK_SECRET_X", "OTEL_EXPORTER_OTLP_HEADERS"]
    {
        let expected = format!("own-variable {name}");
        for value in
            [format!("env.{name}"), format!("env['{name}'] | default('')"), format!("'a' ~ env.{name}")]
        {
            let text = format!(
                "trigger: {{manual: {{}}}}\nconfigVars:\n  a: ${{{{ {value} }}}}\nsteps: [{{set: {{a: \"${{{{ configVars.a }}}}\"}}}}]\n"
            );
            let report = check_text(&catalog(), "automations/test.yaml", &text);
            let found = problems(&report);
            assert!(found.len() == 1 && found[0].starts_with("own-variable"), "{text}{found:?}");
            let text = format!(
                "type: wiki.basic\nwith:\n  host: x.test\n  email: a@x.test\n  apiToken: ${{{{ {value} }}}}\n"
            );
            let report = check_text(&catalog(), "connections/x.yaml", &text);
            let found = problems(&report);
            assert!(found.len() == 1 && found[0].starts_with("own-variable"), "{text}{found:?}");
        }
        let text = format!(
            "trigger: {{webhook: {{verify: {{preset: sharedToken, secret: \"${{{{ env.{name} }}}}\"}}}}}}\nsteps: []\n"
        );
        let report = check_text(&catalog(), "automations/test.yaml", &text);
        assert!(problems(&report).contains(&expected), "{:?}", problems(&report));
    }
    let text = "trigger: {manual: {}}\nconfigVars:\n  a: ${{ env.MY_COGWORK_URL }}\nsteps: [{set: {a: \"${{ configVars.a }}\"}}]\n";
    assert_eq!(problems(&check_text(&catalog(), "automations/test.yaml", text)), [""; 0]);
}
