//! The people of the demo world and what they did: who follows whom, notes with pictures, likes, comments, a chat,
//! sign-ins, reviews. Every step may be done again: nothing comes twice.

use anyhow::Context;
use domain::Services;
use domain::blogs::{BlogId, NewBlog, NewComment};
use domain::chats::NewMessage;
use domain::reviews::NewReview;
use domain::shops::ShopId;
use domain::uploads::ImageId;
use domain::users::{Phone, ProfileChange, Role, Session, UserId};

use super::pictures::bowl;
use super::words::{CHAT, COMMENTS, NOTES, PEOPLE, REVIEWS};

/// Notes of an author among which one of ours is looked for.
const LATEST: u64 = 50;

/// Adds what is missing of the world, around these shops; answers how many notes there are.
pub(super) async fn build(services: &Services, shops: &[ShopId]) -> anyhow::Result<usize> {
    let mut people = Vec::new();
    for person in PEOPLE {
        people.push(introduce(services, person).await?);
    }
    befriend(services, &people).await?;
    let notes = publish(services, &people, shops).await?;
    react(services, &people, &notes).await?;
    review(services, &people, shops).await?;
    for person in &people {
        services.sign_ins.sign_in(person.user_id, None).await?;
    }
    // The last thing: see `is_built`.
    chat(services, &people).await?;
    Ok(notes.len())
}

/// Whether a seeding came to its end: the chat is its last step.
pub(super) async fn is_built(services: &Services) -> anyhow::Result<bool> {
    let find = async |(phone, ..): (&str, &str, &str, &str)| -> anyhow::Result<_> {
        let found = services.users.find_by_phone(&Phone::parse(phone)?).await?;
        Ok(found.map(|user| UserId(user.id)))
    };
    let (Some(one), Some(other)) = (find(PEOPLE[0]).await?, find(PEOPLE[1]).await?) else {
        return Ok(false);
    };
    let chat = services.chats.between(one, other).await?;
    Ok(chat.is_some_and(|chat| chat.messages >= CHAT.len() as i64))
}

async fn introduce(
    services: &Services,
    (phone, nickname, city, intro): (&str, &str, &str, &str),
) -> anyhow::Result<Session> {
    let phone = Phone::parse(phone)?;
    if let Some(known) = services.users.find_by_phone(&phone).await? {
        return Ok(Session::of_command(UserId(known.id), known.role));
    }
    let user = services.users.grant(&phone, Role::User).await?;
    let session = Session::of_command(UserId(user.id), Role::User);
    let profile = ProfileChange {
        nickname: Some(nickname.to_owned()),
        city: Some(Some(city.to_owned())),
        intro: Some(Some(intro.to_owned())),
        ..ProfileChange::default()
    };
    services.users.update_profile(&session, profile).await?;
    Ok(session)
}

/// The first follows everybody, and half of them follow back; the others follow their neighbours.
async fn befriend(services: &Services, people: &[Session]) -> anyhow::Result<()> {
    for (index, person) in people.iter().enumerate() {
        let next = &people[(index + 1) % people.len()];
        let after_next = &people[(index + 2) % people.len()];
        for other in [next, after_next] {
            services.follows.follow(person, other.user_id).await?;
        }
        if index > 0 {
            services.follows.follow(&people[0], person.user_id).await?;
        }
        if index % 2 == 1 {
            services.follows.follow(person, people[0].user_id).await?;
        }
    }
    Ok(())
}

/// Publishes the notes that are not there yet; answers all of them.
async fn publish(
    services: &Services,
    people: &[Session],
    shops: &[ShopId],
) -> anyhow::Result<Vec<BlogId>> {
    let mut notes = Vec::new();
    for (number, (author, title, content)) in (0..).zip(NOTES) {
        let author = &people[author];
        let before = services
            .blogs
            .of_author(author.user_id, None, LATEST)
            .await?;
        if let Some(note) = before.iter().find(|note| note.title == title) {
            notes.push(BlogId(note.id));
            continue;
        }
        let mut image_ids = Vec::new();
        for picture in 0..=number % 3 {
            let image = services.uploads.add(author, bowl(number * 3 + picture)?);
            image_ids.push(ImageId(image.await?.id));
        }
        let note = NewBlog {
            shop_id: shops.get(number as usize % shops.len().max(1)).copied(),
            title: title.to_owned(),
            content: content.to_owned(),
            image_ids,
            request_id: None,
        };
        let note = services.blogs.publish(author, note).await;
        let note = note.with_context(|| format!("publish {title}"))?;
        notes.push(BlogId(note.id));
    }
    Ok(notes)
}

async fn react(services: &Services, people: &[Session], notes: &[BlogId]) -> anyhow::Result<()> {
    for (number, note) in notes.iter().enumerate() {
        for (index, person) in people.iter().enumerate() {
            if (index * 7 + number * 3) % 5 < 2 {
                services.blogs.like(person, *note).await?;
            }
        }
        for turn in 0..number % 4 {
            let comment = NewComment {
                blog_id: *note,
                text: COMMENTS[(number + turn) % COMMENTS.len()].to_owned(),
                request_id: Some(format!("demo-comment-{number}-{turn}")),
            };
            let person = &people[(number + turn * 2) % people.len()];
            services.blogs.add_comment(person, comment).await?;
        }
    }
    Ok(())
}

/// Each of the shops is reviewed by some, of whom nobody reviews one twice.
async fn review(services: &Services, people: &[Session], shops: &[ShopId]) -> anyhow::Result<()> {
    for (number, shop) in shops.iter().enumerate() {
        for turn in 0..1 + number % 3 {
            let (score, text) = REVIEWS[(number + turn) % REVIEWS.len()];
            let review = NewReview {
                shop: *shop,
                order: None,
                score,
                text: text.to_owned(),
                images: Vec::new(),
            };
            let person = &people[(number + turn * 3) % people.len()];
            services.reviews.add(person, review).await?;
        }
    }
    Ok(())
}

async fn chat(services: &Services, people: &[Session]) -> anyhow::Result<()> {
    let (one, other) = (people[0].user_id, people[1].user_id);
    for (turn, text) in CHAT.iter().enumerate() {
        let (from, to) = if turn % 2 == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let message = NewMessage {
            from,
            to,
            text: (*text).to_owned(),
            request: Some(format!("demo-message-{turn}")),
        };
        services.chats.send(message).await?;
    }
    Ok(())
}
