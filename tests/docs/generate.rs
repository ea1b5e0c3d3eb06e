//! What the documents say of each topic is generated from the program's table of topics.

use super::document::Document;
use super::render;

#[test]
fn generated_parts_are_up_to_date() {
    let mut clients = Document::read("docs/clients.md");
    for (name, content) in render::clients() {
        clients.replace_generated(name, &content);
    }
    let mut reference = Document::read("docs/reference.md");
    reference.replace_generated("topics", &render::topic_table());
    let mut openapi = Document::read("docs/openapi.yaml");
    for (name, content) in render::openapi() {
        openapi.replace_generated(name, &content);
    }
    let collection =
        Document { path: "docs/adapter-gateway.postman_collection.json".into(), text: render::collection() };
    let stale: Vec<String> = [clients, reference, openapi, collection].into_iter().filter_map(stale).collect();
    assert!(stale.is_empty(), "run `UPDATE_DOCS=1 cargo test --test docs generated`: not up to date are {stale:?}");
}

/// Returns the path of the document if the committed one differs from it; or writes it, if `UPDATE_DOCS` is set.
fn stale(document: Document) -> Option<String> {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        document.write();
        return None;
    }
    (Document::read(&document.path).text != document.text).then_some(document.path)
}
