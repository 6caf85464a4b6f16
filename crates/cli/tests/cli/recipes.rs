//! The recipes of the manual, copied into a new project as a reader would.

use std::fs;
use std::path::Path;

use crate::support::Project;

/// The files that a page shows: each block of YAML that begins with its path.
fn files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```yaml\n").skip(1);
    let whole = blocks.filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block));
    whole.filter_map(|block| Some((block.lines().next()?.strip_prefix("# ")?.trim(), block))).collect()
}

#[test]
fn every_recipe_loads_and_passes_its_tests_in_a_new_project() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/recipes");
    let pages = fs::read_dir(folder).expect("the recipes").map(|entry| entry.expect("an entry").path());
    let mut count = 0;
    for path in pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let page = fs::read_to_string(&path).expect("a page");
        let project = Project::empty();
        project.cogwork(&["init"]).exits(0);
        let files = files(&page);
        assert!(
            files.iter().any(|(path, _)| path.ends_with(".test.yaml")),
            "{} has no tests",
            path.display()
        );
        for (path, text) in files {
            project.write(path, text);
        }
        project.cogwork(&["validate"]).exits(0).says(" 0 errors");
        project.cogwork(&["test"]).exits(0);
        count += 1;
    }
    assert!(count >= 12, "{count}");
}
