//! The rules of the house that the compiler cannot see: who may name whom, and what every file must have.
//! The arrows between packages are Cargo's; those between concepts are the table below.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Each concept and the concepts that it may name. A new arrow is a decision: it comes in a commit of its own, with
/// the reason, and makes no circle (a test looks).
const CONCEPTS: &[(&str, &[&str])] = &[
    ("users", &[]),
    ("uploads", &["users"]),
    ("notifications", &["users"]),
    ("shops", &["users", "uploads"]),
    ("vouchers", &["users", "shops"]),
    ("orders", &["users", "shops", "vouchers", "notifications"]),
    ("reviews", &["users", "uploads", "shops", "orders"]),
    ("reminders", &["users", "vouchers", "notifications"]),
    ("follows", &["users"]),
    ("chats", &["users", "follows"]),
    ("sign_ins", &["users"]),
    ("visits", &[]),
    ("blogs", &["users", "shops", "uploads", "notifications"]),
    ("feeds", &["users", "follows", "blogs"]),
    ("statistics", &["visits"]),
    ("rate_limits", &[]),
    ("switches", &[]),
];

/// What each package may not name, because something between it and that is there to hide it.
const HIDDEN: &[(&str, &[&str])] = &[
    (
        "schema/src",
        &[
            "sea_orm",
            "sqlx",
            "redis",
            "deadpool_redis",
            "rdkafka",
            "entity",
            "migration",
            "axum",
        ],
    ),
    (
        "domain/src",
        &["async_graphql", "axum", "schema", "lifemate", "migration"],
    ),
    (
        "entity/src",
        &["domain", "schema", "migration", "async_graphql", "axum"],
    ),
    (
        "migration/src",
        &["entity", "domain", "schema", "async_graphql", "axum"],
    ),
];

/// Lines that a source file may have; where tests begin, the count ends.
const FILE_CEILING: usize = 600;

/// Paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/root/", "/work/", "/Users/"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the project: its path from the root, with `/`, and its text.
struct File {
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Numbered lines that are code: no comment, and nothing from the tests at the foot on.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self
            .text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        lines
            .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Where the code names something, as `path:line`.
    fn names(&self, word: &str) -> Vec<String> {
        self.code()
            .filter(|(_, line)| has_word(line, word))
            .map(|(number, _)| format!("{}:{number}", self.path))
            .collect()
    }

    /// Where the code names another concept of the domain: `crate::concept`, or `crate::{…, concept, …}`.
    fn names_concept(&self, concept: &str) -> Vec<String> {
        let code = self
            .code()
            .map(|(_, line)| line)
            .collect::<Vec<_>>()
            .join("\n");
        let groups = code
            .split("crate::{")
            .skip(1)
            .filter_map(|rest| rest.split(';').next());
        let grouped = groups.filter(|group| {
            group
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == concept)
        });
        let mut found = self.names(&format!("crate::{concept}"));
        found.extend(grouped.map(|_| format!("{}: crate::{{… {concept} …}}", self.path)));
        found
    }
}

/// Whether a line uses `word` as a path: `word::`, `use word;` or `word as`. A mere local name is none.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let starts =
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.' || c == '"');
        let after = &line[at + word.len()..];
        let is_import =
            line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub use ");
        starts
            && (after.starts_with("::")
                || (is_import && (after.starts_with(';') || after.starts_with(" as "))))
    })
}

/// Every file of the project but what is built, fetched or run.
fn files() -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "var", ".git", "node_modules"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let path = path
                    .strip_prefix(root())
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn rust_files(below: &str) -> Vec<File> {
    files()
        .into_iter()
        .filter(|file| file.is_rust() && file.path.starts_with(&format!("{below}/")))
        .collect()
}

#[track_caller]
fn assert_none(offenders: &[String], rule: &str) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

#[test]
fn packages_do_not_name_what_is_hidden_from_them() {
    let offenders = HIDDEN.iter().flat_map(|(below, hidden)| {
        let files = rust_files(below);
        assert!(!files.is_empty(), "no sources below {below}");
        hidden
            .iter()
            .flat_map(move |word| {
                files
                    .iter()
                    .flat_map(|file| file.names(word))
                    .collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    });
    assert_none(
        &offenders.collect::<Vec<_>>(),
        "these name what their package must not know",
    );
}

#[test]
fn manifests_do_not_depend_on_what_is_hidden() {
    let offenders = HIDDEN.iter().flat_map(|(below, hidden)| {
        let manifest = below.replace("/src", "/Cargo.toml");
        let text = std::fs::read_to_string(root().join(&manifest)).unwrap();
        let names = text
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .map(|name| name.replace('-', "_"))
            .collect::<BTreeSet<_>>();
        hidden
            .iter()
            .filter(|word| names.contains(**word))
            .map(|word| format!("{manifest}: {word}"))
            .collect::<Vec<_>>()
    });
    assert_none(
        &offenders.collect::<Vec<_>>(),
        "these depend on what their package must not know",
    );
}

#[test]
fn the_ground_knows_no_concept() {
    let files = rust_files("domain/src/infra");
    let offenders = CONCEPTS.iter().flat_map(|(concept, _)| {
        files
            .iter()
            .flat_map(move |file| file.names_concept(concept))
            .collect::<Vec<_>>()
    });
    assert_none(&offenders.collect::<Vec<_>>(), "infra names a concept");
}

#[test]
fn concepts_name_only_those_of_the_table() {
    let mut offenders = Vec::new();
    for (concept, allowed) in CONCEPTS {
        for file in rust_files(&format!("domain/src/{concept}")) {
            let others = CONCEPTS
                .iter()
                .map(|(other, _)| *other)
                .filter(|other| other != concept && !allowed.contains(other));
            offenders.extend(others.flat_map(|other| file.names_concept(other)));
        }
    }
    assert_none(
        &offenders,
        "a concept names another that it may not; see CONCEPTS in tests/it/house.rs",
    );
}

#[test]
fn the_table_names_every_concept_and_has_no_circle() {
    let listed = CONCEPTS
        .iter()
        .map(|(concept, _)| (*concept).to_owned())
        .collect::<BTreeSet<_>>();
    let folders = std::fs::read_dir(root().join("domain/src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    let present = folders
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "infra")
        .collect::<BTreeSet<_>>();
    assert_eq!(
        listed, present,
        "CONCEPTS in tests/it/house.rs is not what domain/src holds"
    );

    // Reading order: whoever is named must stand above. That leaves no circle.
    let place = CONCEPTS
        .iter()
        .enumerate()
        .map(|(index, (concept, _))| (*concept, index))
        .collect::<BTreeMap<_, _>>();
    for (concept, allowed) in CONCEPTS {
        for other in *allowed {
            assert!(
                place[other] < place[concept],
                "{concept} names {other}, which does not stand above it"
            );
        }
    }
}

#[test]
fn every_module_says_first_what_it_is_for() {
    let offenders = files()
        .into_iter()
        .filter(|file| file.is_rust() && !file.text.starts_with("//! "))
        .map(|file| file.path);
    assert_none(
        &offenders.collect::<Vec<_>>(),
        "the first line is no `//! `",
    );
}

#[test]
fn no_source_file_outgrows_its_reader() {
    let offenders = files()
        .into_iter()
        .filter(|file| file.is_rust() && !file.path.contains("tests/"))
        .filter_map(|file| {
            let lines = file
                .text
                .lines()
                .take_while(|line| !line.starts_with("#[cfg(test)]"))
                .count();
            (lines > FILE_CEILING).then(|| format!("{}: {lines} lines", file.path))
        });
    assert_none(
        &offenders.collect::<Vec<_>>(),
        &format!("more than {FILE_CEILING} lines, tests apart"),
    );
}

#[test]
fn every_script_is_known_once_and_says_what_it_takes() {
    let ledger = std::fs::read_to_string(root().join("domain/src/infra/lua.rs")).unwrap();
    let fields = ledger
        .split_once("\nscripts! {")
        .expect("the list of scripts in lua.rs")
        .1;
    let fields = fields
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
        .filter_map(|line| line.strip_suffix(','));
    let mut known = fields
        .filter_map(|field| field.split(' ').next())
        .collect::<Vec<_>>();
    // Beside the scripts, texts that stand before some of them.
    let heads = ledger
        .split("include_str!(\"../../../lua/")
        .skip(1)
        .filter_map(|rest| rest.split(".lua\"").next());
    known.extend(heads);

    let scripts = files()
        .into_iter()
        .filter(|file| file.path.starts_with("lua/") && file.path.ends_with(".lua"))
        .collect::<Vec<_>>();
    let names = scripts
        .iter()
        .map(|file| {
            file.path
                .trim_start_matches("lua/")
                .trim_end_matches(".lua")
        })
        .collect::<BTreeSet<_>>();
    assert_eq!(
        known.len(),
        names.len(),
        "a script is listed twice, or not at all"
    );
    assert_eq!(
        known.into_iter().collect::<BTreeSet<_>>(),
        names,
        "lua/ and the list in domain/src/infra/lua.rs differ"
    );

    let offenders = scripts.iter().filter(|file| {
        let header = file
            .text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect::<Vec<_>>()
            .join("\n");
        !(header.contains("KEYS") && header.contains("ARGV"))
    });
    let offenders = offenders.map(|file| file.path.clone()).collect::<Vec<_>>();
    assert_none(
        &offenders,
        "the opening comment does not say what KEYS and ARGV are",
    );
}

#[test]
fn nothing_names_a_place_on_one_machine() {
    let this = "tests/it/house.rs";
    let offenders = files()
        .into_iter()
        .filter(|file| file.path != this)
        .flat_map(|file| {
            let lines = file
                .text
                .lines()
                .enumerate()
                .filter(|(_, line)| MACHINE_PATHS.iter().any(|path| line.contains(path)));
            lines
                .map(|(index, _)| format!("{}:{}", file.path, index + 1))
                .collect::<Vec<_>>()
        });
    assert_none(
        &offenders.collect::<Vec<_>>(),
        "a path of somebody's machine",
    );
}

#[test]
fn a_path_is_told_from_a_mere_name() {
    let paths = [
        "use entity::order;",
        "let row = entity::order::Entity::find();",
        "use entity as tables;",
        "    Some(entity::sale::Model)",
    ];
    for line in paths {
        assert!(has_word(line, "entity"), "{line}");
    }
    for line in [
        "let entity = tables.entity();",
        "identity::of(x)",
        "self.entity::<u8>()",
        "let text = \"entity::order\";",
        "use crate::identity;",
    ] {
        assert!(!has_word(line, "entity"), "{line}");
    }
}
