//! Notes: what may be written and by whom, who likes it, what is said to it, and which notes are hot.

mod comments;
mod hot;
mod images;
mod likes;
mod notes;

use serde_json::{Value, json};

use crate::support::client::{Answer, Client};

fn global(kind: &str, number: i64) -> String {
    schema::scalars::global_id(kind, number).to_string()
}

/// The number in a global id.
fn number(kind: &str, id: &str) -> i64 {
    let id = async_graphql::ID(id.to_owned());
    schema::scalars::parse_id(&id, kind, "id").unwrap()
}

async fn publish(client: &Client, input: Value) -> Answer {
    let query = "mutation($input: PublishBlogInput!) { publishBlog(input: $input) { blog {
        id title content editCount createdAt updatedAt version author { id } shop { id } } } }";
    client.gql(query, json!({ "input": input })).await
}

/// A note with a title, published.
async fn note(client: &Client, title: &str) -> String {
    let answer = publish(client, json!({ "title": title, "content": "…" })).await;
    answer.text("publishBlog.blog.id").to_owned()
}

async fn update(client: &Client, input: Value) -> Answer {
    let query = "mutation($input: UpdateBlogInput!) { updateBlog(input: $input) { blog {
        id title content editCount createdAt updatedAt version } } }";
    client.gql(query, json!({ "input": input })).await
}

async fn delete(client: &Client, id: &str) -> Answer {
    let query =
        "mutation($input: DeleteBlogInput!) { deleteBlog(input: $input) { deletedBlogId } }";
    client
        .gql(query, json!({ "input": { "blogId": id } }))
        .await
}

/// Some fields of a note, null when it is not to be seen.
async fn read(client: &Client, id: &str, fields: &str) -> Value {
    let query = format!("query($id: ID!) {{ blog(id: $id) {{ {fields} }} }}");
    let answer = client.gql(&query, json!({ "id": id })).await;
    answer.at("blog").clone()
}

/// Ids of the notes of a list below something, page by page.
async fn walk(client: &Client, (root, id, field): (&str, &str, &str), first: usize) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let query = format!(
            "query($id: ID!, $after: String) {{ {root}(id: $id) {{ {field}(first: {first}, after: $after) {{
                edges {{ node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }} }}"
        );
        let answer = client
            .gql(&query, json!({ "id": id, "after": after }))
            .await;
        let list = answer.at(&format!("{root}.{field}"));
        let edges = list["edges"].as_array().unwrap();
        found.extend(
            edges
                .iter()
                .map(|edge| edge["node"]["id"].as_str().unwrap().to_owned()),
        );
        if list["pageInfo"]["hasNextPage"] == false {
            return found;
        }
        assert_eq!(edges.len(), first, "a page is full when more follow");
        after = list["pageInfo"]["endCursor"].clone();
    }
}
