//! Feeds that are watched: each new note once, from whatever node, and none of those who are not followed.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{global, insert_notes, publish, set_follow};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::subscription::{Event, Subscription};

const SOON: Duration = Duration::from_secs(10);
const FEED: &str = "subscription { feed { id author { id } } }";

fn note(data: &Value) -> String {
    data["feed"]["id"].as_str().unwrap().to_owned()
}

/// Publishes until a note comes, and takes all that were published: from then on the watch is known to be on.
async fn watch(client: &Client, author: &Client) -> (Subscription, Vec<String>) {
    let mut watch = Subscription::open(client, FEED, Value::Null).await;
    let mut seen = Vec::new();
    while seen.is_empty() {
        let last = publish(author).await;
        if let Event::Data(data) = watch.event(Duration::from_millis(500)).await {
            seen.push(note(&data));
            while seen.last() != Some(&last) {
                seen.push(note(&watch.next(SOON).await));
            }
        }
    }
    (watch, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watched_feed_tells_each_new_note_once_across_nodes() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let people = app.users(4).await;
    let (reader, author) = (second.as_user(&people[0]), app.as_user(&people[1]));
    let (stranger, other) = (app.as_user(&people[2]), second.as_user(&people[3]));
    let refused = Subscription::open(&app.client(), FEED, Value::Null)
        .await
        .event(SOON)
        .await;
    assert!(matches!(refused, Event::Errors(_)), "{refused:?}");

    set_follow(&reader, "follow", &people[1]).await;
    let (mut feed, mut seen) = watch(&reader, &author).await;
    let (mut again, _) = watch(&reader, &author).await;
    // From either node, by those who are followed: what a stranger writes in between does not come.
    let mut published = Vec::new();
    for client in [&author, &second.as_user(&people[1]), &author] {
        publish(&stranger).await;
        published.push(publish(client).await);
    }
    set_follow(&reader, "follow", &people[3]).await;
    published.push(publish(&other).await);
    set_follow(&reader, "unfollow", &people[1]).await;
    publish(&author).await;
    published.push(publish(&other).await);
    let last = published.last().unwrap();
    let is_last = |data: &Value| note(data) == *last;
    let told = feed.until(SOON, is_last).await;
    let told: Vec<_> = told.iter().map(note).collect();
    assert_eq!(told[told.len() - published.len()..], published);
    seen.extend(told);
    let once: HashSet<_> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "none twice");
    let told = again.until(SOON, is_last).await;
    let told: Vec<_> = told.iter().map(note).collect();
    assert_eq!(told, published);
    feed.stop().await;
    again.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_whose_event_was_lost_is_told_within_seconds_and_once() {
    let app = TestApp::start().await;
    let people = app.users(2).await;
    let (reader, author) = (app.as_user(&people[0]), app.as_user(&people[1]));
    set_follow(&reader, "follow", &people[1]).await;
    let (mut feed, _) = watch(&reader, &author).await;
    // Rows without an event, as when Redis was away at publishing; one of them is from before the watch.
    let now = app.services().infra().clock.now_ms();
    insert_notes(&app, people[1].id, &[(1_000, now - 60_000), (1_001, now)]).await;
    assert_eq!(
        feed.next(SOON).await["feed"],
        json!({ "id": global("Blog", 1_001), "author": { "id": global("User", people[1].id) } })
    );
    let last = publish(&author).await;
    assert_eq!(note(&feed.next(SOON).await), last);
    // The event comes after all: it is no news.
    let late = format!("1001:{}", people[1].id);
    app.redis().publish("blogs", &late).await.unwrap();
    let last = publish(&author).await;
    assert_eq!(note(&feed.next(SOON).await), last);
    feed.stop().await;
    app.finish().await;
}
