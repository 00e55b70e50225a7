//! The rules that the pages define: their index, and that everything cited is among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::pages::{self, RULE_PAGES};

/// A rule as its page defines it: a heading `### ID Subject`, and below it its state, unless it is
/// built.
struct Rule {
    id: String,
    subject: String,
    state: &'static str,
    page: &'static str,
}

#[test]
fn index_is_that_of_the_pages() {
    pages::keep_current("protocol/README.md", &[("rules", index(&rules()))]);
}

/// A clone of this repository defines every rule that its code, tests and scripts cite.
#[test]
fn every_cited_rule_is_defined() {
    let defined: BTreeSet<String> = rules().into_iter().map(|rule| rule.id).collect();
    let prefixes: BTreeSet<&str> = defined
        .iter()
        .filter_map(|id| id.split('-').next())
        .collect();
    let mut undefined = BTreeMap::new();
    let mut citations = 0;
    for file in pages::text_files() {
        for id in cited(&pages::read(&file), &prefixes) {
            citations += 1;
            if !defined.contains(id) {
                undefined
                    .entry(id.to_owned())
                    .or_insert_with(|| file.clone());
            }
        }
    }
    assert!(
        undefined.is_empty(),
        "cited, but not defined under docs/: {undefined:#?}"
    );
    assert!(
        citations > defined.len(),
        "only {citations} citations were found"
    );
}

#[test]
fn ids_are_told_from_other_words() {
    let prefixes = BTreeSet::from(["AB", "ABC"]);
    let found: Vec<_> = cited(
        "AB-1..5, (ABC-12) ab-3 AB-x AB-1-2 AB_4 XY-7 `AB-6`s AB-",
        &prefixes,
    )
    .collect();
    assert_eq!(found, ["AB-1", "ABC-12", "AB-6"]);
}

/// Every rule, page by page, by number.
fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for &page in RULE_PAGES {
        let text = pages::page_text(page);
        let mut on_page = Vec::new();
        for section in text.split("\n### ").skip(1) {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            let Some((id, subject)) = heading.split_once(' ') else {
                continue;
            };
            let Some((prefix, number)) = parts(id) else {
                continue;
            };
            let rule = Rule {
                id: id.to_owned(),
                subject: subject.to_owned(),
                state: state(body),
                page,
            };
            on_page.push(((prefix, number), rule));
        }
        assert!(!on_page.is_empty(), "{page} defines no rule");
        on_page.sort_by_key(|(id, _)| *id);
        rules.extend(on_page.into_iter().map(|(_, rule)| rule));
    }
    let ids: BTreeSet<_> = rules.iter().map(|rule| &rule.id).collect();
    assert_eq!(ids.len(), rules.len(), "a rule is defined twice");
    rules
}

fn state(body: &str) -> &'static str {
    let body = body.trim_start();
    if body.starts_with("*Planned") {
        "planned"
    } else if body.starts_with("*Partly built") {
        "partly built"
    } else {
        "built"
    }
}

fn index(rules: &[Rule]) -> String {
    let mut table = "| rule | subject | state |\n|---|---|---|\n".to_owned();
    for Rule {
        id,
        subject,
        state,
        page,
    } in rules
    {
        let anchor = pages::anchor(&format!("{id} {subject}"));
        let path = match page.strip_prefix("protocol/") {
            Some(page) => page.to_owned(),
            None => format!("../{page}"),
        };
        let _ = writeln!(table, "| [{id}]({path}#{anchor}) | {subject} | {state} |");
    }
    table
}

/// Prefix and number of a rule id; `None` if `word` is none.
fn parts(word: &str) -> Option<(&str, u32)> {
    let (prefix, number) = word.split_once('-')?;
    let capitals = prefix.len() >= 2 && prefix.bytes().all(|byte| byte.is_ascii_uppercase());
    number
        .parse()
        .ok()
        .filter(|_| capitals)
        .map(|number| (prefix, number))
}

/// Every rule id in `text` with one of these prefixes.
fn cited<'a>(text: &'a str, prefixes: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
        .filter(|word| parts(word).is_some_and(|(prefix, _)| prefixes.contains(prefix)))
}
