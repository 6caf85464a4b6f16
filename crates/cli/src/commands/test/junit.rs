//! The results as JUnit XML, which build servers read.

use std::io::{self, Write};
use std::time::Duration;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::play::{PlayedFile, PlayedTest};
use super::report::Summary;
use crate::output::plain;

/// The whole file.
pub(super) fn text(played: &[PlayedFile<'_>], summary: &Summary) -> anyhow::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let (tests, failures) = (summary.ran() + summary.broken, summary.failed + summary.broken);
    writer
        .create_element("testsuites")
        .with_attribute(("name", "cogwork"))
        .with_attribute(("tests", tests.to_string().as_str()))
        .with_attribute(("failures", failures.to_string().as_str()))
        .with_attribute(("skipped", summary.skipped.to_string().as_str()))
        .with_attribute(("time", seconds(summary.took).as_str()))
        .write_inner_content(|writer| played.iter().try_for_each(|file| suite(writer, file)))?;
    let mut text = String::from_utf8(writer.into_inner())?;
    text.push('\n');
    Ok(text)
}

fn suite<W: Write>(writer: &mut Writer<W>, file: &PlayedFile<'_>) -> io::Result<()> {
    let with = |status: &str| file.tests.iter().filter(|test| test.status() == status).count();
    let broken = usize::from(file.file.report.has_errors());
    let took = file.tests.iter().map(|test| test.took).sum();
    writer
        .create_element("testsuite")
        .with_attribute(("name", file.file.path.as_str()))
        .with_attribute(("tests", (file.tests.len() + broken).to_string().as_str()))
        .with_attribute(("failures", (with("failed") + broken).to_string().as_str()))
        .with_attribute(("skipped", with("skipped").to_string().as_str()))
        .with_attribute(("time", seconds(took).as_str()))
        .write_inner_content(|writer| {
            if broken > 0 {
                failure(writer, file, "the file has errors", &file.file.report.render(false))?;
            }
            file.tests.iter().try_for_each(|test| case(writer, file, test))
        })?;
    Ok(())
}

fn case<W: Write>(writer: &mut Writer<W>, file: &PlayedFile<'_>, test: &PlayedTest<'_>) -> io::Result<()> {
    let name = plain(&test.case.name.name);
    let element = writer
        .create_element("testcase")
        .with_attribute(("name", name.as_ref()))
        .with_attribute(("classname", class(file).as_str()))
        .with_attribute(("file", file.file.path.as_str()))
        .with_attribute(("time", seconds(test.took).as_str()));
    match (&test.verdict, &test.case.skip) {
        (None, reason) => {
            let reason = plain(reason.as_deref().unwrap_or_default());
            element.write_inner_content(|writer| {
                writer
                    .create_element("skipped")
                    .with_attribute(("message", reason.as_ref()))
                    .write_empty()?;
                Ok(())
            })?;
        }
        (Some(verdict), _) if verdict.passes() => {
            element.write_empty()?;
        }
        (Some(verdict), _) => {
            let entries = verdict.report.entries();
            let message = entries.first().map(|entry| entry.message.as_str()).unwrap_or_default();
            let details = verdict.report.render(false);
            element.write_inner_content(|writer| failed(writer, message, &details))?;
        }
    }
    Ok(())
}

/// A separate test case, for failures that belong to no test.
fn failure<W: Write>(
    writer: &mut Writer<W>,
    file: &PlayedFile<'_>,
    name: &str,
    details: &str,
) -> io::Result<()> {
    writer
        .create_element("testcase")
        .with_attribute(("name", name))
        .with_attribute(("classname", class(file).as_str()))
        .with_attribute(("file", file.file.path.as_str()))
        .with_attribute(("time", "0.000"))
        .write_inner_content(|writer| failed(writer, name, details))?;
    Ok(())
}

fn failed<W: Write>(writer: &mut Writer<W>, message: &str, details: &str) -> io::Result<()> {
    // Characters that XML cannot represent are escaped.
    let lines: Vec<_> = details.lines().map(plain).collect();
    writer
        .create_element("failure")
        .with_attribute(("message", plain(message).as_ref()))
        .write_text_content(BytesText::new(&lines.join("\n")))?;
    Ok(())
}

/// The group of the tests: the automation, or the file if it names none.
fn class(file: &PlayedFile<'_>) -> String {
    file.file.suite.as_ref().map_or_else(|| file.file.path.clone(), |suite| suite.automation.name.clone())
}

fn seconds(took: Duration) -> String {
    format!("{:.3}", took.as_secs_f64())
}
