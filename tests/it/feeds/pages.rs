//! Pages of a feed: what happens between them, below the end of an inbox, and to notes that are not to be seen.

use std::collections::HashSet;

use domain::users::UserId;
use entity::follow;
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel};

use super::{
    carry_all, delete, inbox, inbox_keys, insert_notes, page, publish, reference, set_follow, walk,
};
use crate::support::app::TestApp;
use crate::support::private::PrivateRedis;
use crate::support::stores::Store;

/// 25 notes with one time: more than fit a page, so that a place is not told by the time alone.
async fn each_note_of_one_millisecond_is_seen_once(store: Store, is_pushed: bool) {
    let app = TestApp::build().on(store).without_workers().start().await;
    let people = app.users(3).await;
    let (reader, author) = (app.as_user(&people[0]), app.as_user(&people[1]));
    set_follow(&reader, "follow", &people[1]).await;
    set_follow(&reader, "follow", &people[2]).await;
    assert!(walk(&reader, 10).await.is_empty());
    let mut notes = Vec::new();
    for _ in 0..25 {
        notes.push(publish(&author).await);
    }
    for table in ["blogs", "blog_fanouts"] {
        let same = format!("UPDATE {table} SET created_at = 1780000000000");
        app.db().execute_unprepared(&same).await.unwrap();
    }
    notes.reverse();
    if is_pushed {
        carry_all(&app).await;
        let redis = app.services().infra().cache.redis();
        assert_eq!(inbox(redis, people[0].id).await, notes);
    }

    let first = page(&reader, 10, None).await;
    assert_eq!(first.notes, notes[..10]);
    // The last note of the page goes, whose place the cursor is; and one that was not seen yet.
    delete(&author, &notes[9]).await;
    delete(&author, &notes[17]).await;
    let mut news = Vec::new();
    for _ in 0..3 {
        news.push(publish(&app.as_user(&people[2])).await);
    }
    if is_pushed {
        carry_all(&app).await;
    }
    let mut seen = first.notes;
    let (mut next, mut pages) = (first.next, 1);
    while let Some(cursor) = next {
        let more = page(&reader, 10, Some(&cursor)).await;
        seen.extend(more.notes);
        next = more.next;
        pages += 1;
        assert!(pages <= 3, "the walk ends");
    }
    let mut expected = notes.clone();
    expected.remove(17);
    assert_eq!(seen, expected);
    let again = walk(&reader, 10).await;
    let newest: HashSet<_> = again[..3].iter().collect();
    assert_eq!(newest, news.iter().collect());
    assert_eq!(again, reference(&app, people[0].id).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_notes_of_one_millisecond_than_fit_a_page_are_each_seen_once() {
    each_note_of_one_millisecond_is_seen_once(Store::MariaDb, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_notes_of_one_millisecond_than_fit_a_page_are_each_seen_once_on_sqlite() {
    each_note_of_one_millisecond_is_seen_once(Store::Sqlite, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_notes_of_one_millisecond_than_fit_a_page_are_each_seen_once_on_postgres() {
    each_note_of_one_millisecond_is_seen_once(Store::Postgres, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_notes_of_one_millisecond_than_fit_a_page_are_each_seen_once_before_any_is_pushed() {
    each_note_of_one_millisecond_is_seen_once(Store::MariaDb, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_goes_on_below_the_end_of_the_inbox() {
    let app = TestApp::build().without_workers().start().await;
    let people = app.users(3).await;
    let reader = app.as_user(&people[0]);
    for author in &people[1..] {
        set_follow(&reader, "follow", author).await;
    }
    // Seven notes a millisecond, by two authors in turns, more than an inbox holds.
    for place in 0..2 {
        let notes: Vec<_> = (0..350)
            .map(|n| 2 * n + place)
            .map(|n| (1_000 + n, 1_780_000_000_000 + n / 7))
            .collect();
        insert_notes(&app, people[1 + usize::try_from(place).unwrap()].id, &notes).await;
    }
    let all = reference(&app, people[0].id).await;
    assert_eq!(all.len(), 700);
    assert_eq!(walk(&reader, 50).await, all);
    let redis = app.services().infra().cache.redis();
    assert_eq!(inbox(redis, people[0].id).await, all[..500]);

    // What is pushed into a full inbox drops the oldest; the walk finds them below.
    let news = [
        publish(&app.as_user(&people[1])).await,
        publish(&app.as_user(&people[2])).await,
    ];
    carry_all(&app).await;
    let held = inbox(redis, people[0].id).await;
    assert_eq!(held.len(), 500);
    assert_eq!(held[..2], [news[1].clone(), news[0].clone()]);
    assert_eq!(held[2..], all[..498]);
    let expected = reference(&app, people[0].id).await;
    assert_eq!(expected.len(), 702);
    assert_eq!(walk(&reader, 47).await, expected);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_that_are_gone_leave_no_hole_in_a_page() {
    let app = TestApp::start().await;
    let people = app.users(3).await;
    let reader = app.as_user(&people[0]);
    for author in &people[1..] {
        set_follow(&reader, "follow", author).await;
    }
    // An author who has no account any more.
    let vanished = 77;
    let row = follow::Model {
        id: 1,
        follower_id: people[0].id,
        followee_id: vanished,
        seq: 2,
        created_at: 1,
    };
    follow::Entity::insert(row.into_active_model())
        .exec_without_returning(app.db())
        .await
        .unwrap();
    for n in 0..60 {
        let author = [people[1].id, people[2].id, vanished][usize::try_from(n % 3).unwrap()];
        insert_notes(&app, author, &[(1_000 + n, 1_780_000_000_000 + n)]).await;
    }
    let full = walk(&reader, 10).await;
    assert_eq!(full.len(), 40);
    assert_eq!(full, reference(&app, people[0].id).await);

    // The first author's notes but ten are deleted one by one.
    let own = app.as_user(&people[1]);
    let notes: Vec<_> = (0..60)
        .step_by(3)
        .map(|n| super::global("Blog", 1_000 + n))
        .collect();
    for note in notes.iter().skip(1).step_by(2) {
        delete(&own, note).await;
    }
    // Exactly as many are left as two pages hold: the second says that nothing follows.
    set_follow(&reader, "unfollow", &people[2]).await;
    let first = page(&reader, 5, None).await;
    assert_eq!(first.notes.len(), 5);
    let second = page(&reader, 5, first.next.as_deref()).await;
    assert_eq!((second.notes.len(), second.next), (5, None));
    let seen: Vec<_> = first.notes.into_iter().chain(second.notes).collect();
    assert_eq!(seen, reference(&app, people[0].id).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_fills_the_feed_with_old_notes_and_unfollowing_empties_it() {
    let app = TestApp::start().await;
    let people = app.users(3).await;
    let (reader, one, other) = (
        app.as_user(&people[0]),
        app.as_user(&people[1]),
        app.as_user(&people[2]),
    );
    assert!(walk(&reader, 10).await.is_empty());
    let (a, b) = (publish(&one).await, publish(&other).await);
    assert!(walk(&reader, 10).await.is_empty());
    set_follow(&reader, "follow", &people[1]).await;
    assert_eq!(walk(&reader, 10).await, std::slice::from_ref(&a));
    set_follow(&reader, "follow", &people[2]).await;
    assert_eq!(walk(&reader, 10).await, [b.clone(), a.clone()]);
    set_follow(&reader, "unfollow", &people[1]).await;
    assert_eq!(walk(&reader, 10).await, std::slice::from_ref(&b));
    // What was published while nobody followed is there too, though nobody pushed it.
    let missed = publish(&one).await;
    assert_eq!(walk(&reader, 10).await, std::slice::from_ref(&b));
    set_follow(&reader, "follow", &people[1]).await;
    assert_eq!(walk(&reader, 10).await, [missed, b, a]);
    // One's own notes are not in one's feed.
    publish(&reader).await;
    assert_eq!(walk(&reader, 10).await, reference(&app, people[0].id).await);
    let signed_out = "{ viewer { feed { edges { node { id } } } } }";
    let answer = app.gql(signed_out, serde_json::Value::Null).await;
    assert!(answer.at("viewer").is_null());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_another_feed_is_refused() {
    let app = TestApp::start().await;
    let people = app.users(3).await;
    let (one, other) = (app.as_user(&people[0]), app.as_user(&people[1]));
    for reader in [&one, &other] {
        set_follow(reader, "follow", &people[2]).await;
    }
    for _ in 0..2 {
        publish(&app.as_user(&people[2])).await;
    }
    let cursor = page(&one, 1, None).await.next.unwrap();
    let query = "query($after: String) { viewer { feed(after: $after) { edges { cursor } } } }";
    for (reader, after) in [(&other, cursor.as_str()), (&one, "garbled"), (&one, "")] {
        let after = serde_json::json!({ "after": after });
        reader.gql(query, after).await.expect_code("BAD_CURSOR");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_redis_lost_is_built_again_and_without_redis_the_database_answers() {
    let mut redis = PrivateRedis::start().await;
    let app = TestApp::build()
        .on_redis(redis.url().to_owned())
        .start()
        .await;
    let people = app.users(2).await;
    let (reader, author) = (app.as_user(&people[0]), app.as_user(&people[1]));
    set_follow(&reader, "follow", &people[1]).await;
    for _ in 0..12 {
        publish(&author).await;
    }
    let all = walk(&reader, 5).await;
    assert_eq!(all, reference(&app, people[0].id).await);
    let keys = inbox_keys(app.redis(), people[0].id);
    let [state, entries] = keys.clone();
    for lost in [vec![state], vec![entries], keys.to_vec()] {
        let mut command = deadpool_redis::redis::cmd("DEL");
        command.arg(&lost);
        app.redis().query::<()>(&command).await.unwrap();
        assert_eq!(walk(&reader, 5).await, all, "without {lost:?}");
        assert_eq!(inbox(app.redis(), people[0].id).await, all);
    }
    // In the middle of a walk.
    let first = page(&reader, 5, None).await;
    let mut command = deadpool_redis::redis::cmd("DEL");
    command.arg(&keys[0]).arg(&keys[1]);
    app.redis().query::<()>(&command).await.unwrap();
    let rest = page(&reader, 50, first.next.as_deref()).await;
    assert_eq!(rest.notes, all[5..]);

    redis.kill9();
    let found = app.services().feeds.page(UserId(people[0].id), None, 50);
    let found = found.await.unwrap();
    let found: Vec<_> = found.iter().map(|n| super::global("Blog", n.id)).collect();
    assert_eq!(found, all);
    app.close().await;
}
