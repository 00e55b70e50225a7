//! The links between pages.

use crate::pages;

/// Every relative link of a page leads to a file of the repository, and its anchor to a heading.
#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in pages::text_files() {
        if page.extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let text = pages::read(&page);
        for target in targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => page.with_file_name(path),
            };
            let found =
                file.exists() && (anchor.is_empty() || has_anchor(&pages::read(&file), anchor));
            if !found {
                broken.push(format!("{}: {target}", page.display()));
            }
            followed += 1;
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
    assert!(followed >= 100, "only {followed} links were found");
}

/// Where a page's relative links lead.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
}

fn has_anchor(page: &str, anchor: &str) -> bool {
    page.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| pages::anchor(line.trim_start_matches('#').trim()) == anchor)
}
