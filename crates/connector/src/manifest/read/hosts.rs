//! Reads names of hosts to which a request may go besides the service's own.

use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::Field;

/// Reads a host or a list of them. `*.example.com` stands for all below it.
pub(super) fn read(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<String> {
    let mut hosts = Vec::new();
    for host in field.one_or_more().unwrap_or_default() {
        let span = host.span();
        let Some(name) = host.name().map(str::to_ascii_lowercase) else { continue };
        match (is_host(&name), span) {
            (false, Some(span)) => {
                let message = format!("`{name}` is no name of a host");
                let help = "write a name such as `files.example.com`, or `*.example.com` for all below it, without a scheme and a port";
                diagnostics.push(Diagnostic::error("invalid-address", message, span).help(help));
            }
            _ => hosts.push(name),
        }
    }
    hosts
}

/// True for the name of a host, and for all hosts below a domain that has itself a dot.
fn is_host(name: &str) -> bool {
    let (domain, labels) = match name.strip_prefix("*.") {
        Some(domain) => (domain, 2),
        None => (name, 1),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_')
    };
    domain.split('.').all(is_label) && domain.split('.').count() >= labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_neither_scheme_nor_port_and_a_star_only_before_a_domain() {
        for good in ["localhost", "files.example.com", "*.example.com", "10.0.0.1", "a_b.example.com"] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "*",
            "*.com",
            "*example.com",
            "a.*.example",
            "http://a.example",
            "a.example:80",
            "a..b",
            "",
            ".a",
            "a/b",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
