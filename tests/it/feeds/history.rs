//! Feeds over a random history, compared with what the tables say after each step.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{delete, publish, reference, set_follow, walk};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::stores::Store;

const PEOPLE: u32 = 7;

/// Follows, unfollows, notes and deletions at random, while workers push; each look is what the tables say.
async fn a_random_history(store: Store, seed: u64, steps: usize) {
    // Authors are on both sides of the threshold, and cross it.
    let app = TestApp::build()
        .on(store)
        .config(|c| c.feed_push_max_followers = 2)
        .start()
        .await;
    let people = app.users(PEOPLE).await;
    let clients: Vec<Client> = people.iter().map(|user| app.as_user(user)).collect();
    let mut random = StdRng::seed_from_u64(seed);
    let mut notes: Vec<(usize, String)> = Vec::new();
    let mut looks = 0;
    for step in 0..steps {
        let (one, other) = (
            random.random_range(0..people.len()),
            random.random_range(0..people.len()),
        );
        match random.random_range(0..10) {
            0..=1 if one != other => set_follow(&clients[one], "follow", &people[other]).await,
            2 if one != other => set_follow(&clients[one], "unfollow", &people[other]).await,
            3..=5 => notes.push((one, publish(&clients[one]).await)),
            6 if !notes.is_empty() => {
                let (author, note) = notes.swap_remove(random.random_range(0..notes.len()));
                delete(&clients[author], &note).await;
            }
            _ => {
                let first = *[1, 3, 10, 50].choose(&mut random).unwrap();
                let seen = walk(&clients[one], first).await;
                let expected = reference(&app, people[one].id).await;
                assert_eq!(
                    seen, expected,
                    "step {step} of seed {seed}, pages of {first}"
                );
                looks += 1;
            }
        }
    }
    assert!(looks > steps / 5);
    for (user, client) in people.iter().zip(&clients) {
        assert_eq!(walk(client, 10).await, reference(&app, user.id).await);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_what_the_tables_say_at_every_moment_of_a_random_history() {
    a_random_history(Store::MariaDb, 20_261_201, 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_what_the_tables_say_on_sqlite_too() {
    a_random_history(Store::Sqlite, 7, 120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_what_the_tables_say_on_postgres_too() {
    a_random_history(Store::Postgres, 11, 120).await;
}
