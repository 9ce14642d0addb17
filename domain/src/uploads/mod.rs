//! Pictures that users upload: checked, drawn anew, stored, taken into use, deleted. What names a picture (a note, a
//! profile) keeps its id; how files come over the wire is `src/transport/uploads.rs`.
//!
//! | state | means | next |
//! |---|---|---|
//! | `STORING` | the object is being written | `NEW`; `DELETING` when it was left behind |
//! | `NEW` | stored, and nothing names it | `KEPT`; `DELETING` after a day, or by its owner |
//! | `KEPT` | something names it, or has named it | `DELETING`, by its owner only |
//! | `DELETING` | gone for everybody | the object goes, then the row |
//!
//! Whoever names a picture asks `require_owned` before it writes, and that makes the picture `KEPT`. The sweep takes
//! only what is `NEW`, by compare-and-set: so it never takes a picture that anything names.

mod picture;
mod store;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use entity::image::{self, ImageState};
use futures_util::stream::BoxStream;
use rand::RngCore;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveEnum, ColumnTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::define_id;
use crate::infra::Infra;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault};
use crate::infra::ids::IdsError;
use crate::settings::Settings;
use crate::users::{self, Session, Users};
use picture::Picture;
use store::Store;

pub use picture::{MOST_PIXELS, Refusal};
pub use store::SetupError;

define_id!(
    /// The number of an uploaded picture.
    ImageId
);

/// A picture as stored.
pub type Image = image::Model;

/// Bytes of a picture, as uploaded and as stored.
pub const FILE_MAX_BYTES: usize = 5 * 1024 * 1024;
/// Pictures in one place: a note, a review, a shop.
pub const IMAGES_MAX: usize = 9;
/// The argument that names them.
const IMAGE_IDS: &str = "input.imageIds";
/// Ids in one question to the database.
const IDS_PER_READ: usize = 500;
/// Bytes of a key: nobody finds a picture by trying.
const KEY_BYTES: usize = 16;
/// Pictures drawn anew at once in this process; a large one counts for all of them.
const DRAWN_AT_ONCE: u32 = 2;

/// What goes wrong with pictures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is no picture that is taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many pictures for one place, or one of them twice.
    #[error("takes at most {IMAGES_MAX} pictures, each once")]
    BadList,
    /// A picture that is none of the viewer's, or none at all.
    #[error("these are not all pictures of yours")]
    NotYours {
        /// The argument that names it.
        argument: &'static str,
    },
    /// No such picture, or not one of the viewer's.
    #[error("no such picture")]
    NoSuchImage,
    /// It took so long that the sweep took the picture for left behind.
    #[error("storing the picture took too long; upload it again")]
    TooSlow,
    /// The store's own.
    #[error("the store of pictures failed: {0}")]
    Store(#[from] object_store::Error),
    /// No id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// Trouble with the profile that shows it.
    #[error(transparent)]
    Users(#[from] users::Error),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Refused(_) => Fault::BadInput { argument: "file" },
            Self::BadList => Fault::BadInput {
                argument: IMAGE_IDS,
            },
            Self::NotYours { argument } => Fault::BadInput { argument },
            Self::NoSuchImage => Fault::NotFound,
            Self::TooSlow => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Users(e) => e.fault(),
            Self::Store(_) | Self::Ids(_) => Fault::Unavailable,
            Self::Database(e) => database_fault(e),
        }
    }
}

/// A picture for whoever asks for its address on this server.
pub enum Served {
    /// Its bytes come from here.
    Here {
        /// What is known of it.
        image: Image,
        /// The bytes, `image.bytes` of them.
        bytes: BoxStream<'static, Result<Bytes, object_store::Error>>,
    },
    /// It lies where clients fetch it themselves.
    Elsewhere {
        /// Where, good for some minutes at least.
        url: String,
    },
}

/// Uploaded pictures. Cheap to clone.
#[derive(Clone)]
pub struct Uploads {
    infra: Infra,
    users: Users,
    store: Store,
    drawing: Arc<Semaphore>,
    /// Of this server, no slash at the end.
    public_url: String,
}

impl Uploads {
    /// Makes the concept, and the folder where pictures lie if they lie in one.
    ///
    /// # Errors
    /// When the folder cannot be written to, or the settings of S3 make no client. S3 itself is not asked.
    pub fn new(infra: Infra, users: Users, settings: &Settings) -> Result<Self, SetupError> {
        Ok(Self {
            infra,
            users,
            store: Store::open(&settings.uploads)?,
            drawing: Arc::new(Semaphore::new(DRAWN_AT_ONCE as usize)),
            public_url: settings.public_url.clone(),
        })
    }

    /// Takes a picture of the viewer's: draws it anew without anything that was beside the picture, and stores it.
    ///
    /// Not to be dropped half-way: what is left behind then is only swept an hour later.
    ///
    /// # Errors
    /// `Refused` when the file is no picture that is taken; nothing is stored then.
    pub async fn add(&self, session: &Session, file: Vec<u8>) -> Result<Image, Error> {
        let picture = self.draw(file).await?;
        let row = self.row(session, &picture)?;
        let insert = image::Entity::insert(row.clone().into_active_model());
        insert.exec_without_returning(self.infra.db.conn()).await?;
        self.store
            .put(&row.object_key, &row.content_type, picture.bytes)
            .await?;
        let id = ImageId(row.id);
        if !self
            .change(id, ImageState::Storing, ImageState::New)
            .await?
        {
            return Err(Error::TooSlow);
        }
        Ok(Image {
            state: ImageState::New,
            ..row
        })
    }

    /// Makes sure that the viewer may show these pictures in one place: they are his; from now on they are kept until he
    /// deletes them. Those that stand there already (`known`) may be anybody's.
    ///
    /// # Errors
    /// About `input.imageIds`: `BadList`; `NotYours` when one is not there, not his, or gone. Nothing is kept then that
    /// was not before.
    pub async fn require_owned(
        &self,
        session: &Session,
        ids: &[ImageId],
        known: &[ImageId],
    ) -> Result<(), Error> {
        let different: HashSet<_> = ids.iter().collect();
        if ids.len() > IMAGES_MAX || different.len() < ids.len() {
            return Err(Error::BadList);
        }
        let new = ids.iter().filter(|id| !known.contains(id));
        let new: Vec<ImageId> = new.copied().collect();
        self.keep(session, &new, IMAGE_IDS).await?;
        Ok(())
    }

    /// As [`Uploads::require_owned`], for the one picture of a profile (`input.avatarImageId`).
    ///
    /// # Errors
    /// `NotYours`.
    pub async fn require_avatar(&self, session: &Session, id: ImageId) -> Result<Image, Error> {
        let argument = "input.avatarImageId";
        let mut kept = self.keep(session, &[id], argument).await?;
        kept.pop().ok_or(Error::NotYours { argument })
    }

    /// Pictures by id; those that are missing or gone are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn get_many(&self, ids: &[ImageId]) -> Result<Vec<Image>, Error> {
        let mut images = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_READ) {
            let rows = image::Entity::find()
                .filter(image::Column::Id.is_in(chunk.iter().map(|id| id.0)))
                .filter(image::Column::State.is_in([ImageState::New, ImageState::Kept]))
                .all(self.infra.db.conn())
                .await?;
            images.extend(rows);
        }
        Ok(images)
    }

    /// Whether somebody may learn of a picture by its id: once something names it everybody, before that its owner.
    pub fn is_visible_to(&self, image: &Image, viewer: Option<&Session>) -> bool {
        let is_own = viewer.is_some_and(|session| session.user_id.0 == image.owner_id);
        is_own || image.state == ImageState::Kept
    }

    /// Where a client fetches a picture now. In S3 without a public address it is signed, and good for an hour.
    ///
    /// # Errors
    /// When the address cannot be signed.
    pub async fn url(&self, image: &Image) -> Result<String, Error> {
        match self.store.url(&image.object_key).await? {
            Some(url) => Ok(url),
            None => Ok(self.own_url(image)),
        }
    }

    /// As [`Uploads::url`], by id; `None` when there is no such picture.
    ///
    /// # Errors
    /// When the database fails, or the address cannot be signed.
    pub async fn url_of(&self, id: ImageId) -> Result<Option<String>, Error> {
        match self.get_many(&[id]).await?.first() {
            Some(image) => Ok(Some(self.url(image).await?)),
            None => Ok(None),
        }
    }

    /// An address that stays good for as long as the picture is there, for those who keep addresses.
    pub fn lasting_url(&self, image: &Image) -> String {
        let public = self.store.public_url(&image.object_key);
        public.unwrap_or_else(|| self.own_url(image))
    }

    /// The picture under a key; `None` when there is none.
    ///
    /// # Errors
    /// When a store fails.
    pub async fn serve(&self, key: &str) -> Result<Option<Served>, Error> {
        let Some(image) = self.by_key(key).await? else {
            return Ok(None);
        };
        if let Some(url) = self.store.url(&image.object_key).await? {
            return Ok(Some(Served::Elsewhere { url }));
        }
        let bytes = self.store.get(&image.object_key).await?;
        Ok(bytes.map(|bytes| Served::Here { image, bytes }))
    }

    /// Deletes a picture of the viewer's. What names it shows one picture less, a profile no avatar; copies that clients
    /// hold may stay theirs.
    ///
    /// # Errors
    /// `NoSuchImage`, also for somebody else's; trouble of the database. When the store is away the picture is gone for
    /// everybody, and its object goes later.
    pub async fn delete(&self, session: &Session, id: ImageId) -> Result<(), Error> {
        let found = self.get_many(&[id]).await?.pop();
        let image = found
            .filter(|image| image.owner_id == session.user_id.0)
            .ok_or(Error::NoSuchImage)?;
        let avatar = self.lasting_url(&image);
        self.users.drop_avatar(session.user_id, &avatar).await?;
        let gone = image::Entity::update_many()
            .col_expr(
                image::Column::State,
                Expr::value(ImageState::Deleting.to_value()),
            )
            .filter(image::Column::Id.eq(id.0))
            .filter(image::Column::State.ne(ImageState::Deleting))
            .exec(self.infra.db.conn())
            .await?;
        if gone.rows_affected == 0 {
            return Err(Error::NoSuchImage);
        }
        if let Err(e) = self.remove(&image).await {
            tracing::warn!(error = %e, image.id = id.0, "a deleted picture's object goes at the next sweep");
        }
        Ok(())
    }

    /// Decoding takes memory and a core: only so many at once, and the largest one by one. A decoder that panics has met a
    /// file that nobody needs.
    async fn draw(&self, file: Vec<u8>) -> Result<Picture, Error> {
        let measured = spawn_blocking(move || picture::measure(&file).map(|pixels| (pixels, file)));
        let (pixels, file) = measured.await.unwrap_or(Err(Refusal::Broken))?;
        let share = if pixels > MOST_PIXELS / 2 {
            DRAWN_AT_ONCE
        } else {
            1
        };
        let turn = Arc::clone(&self.drawing).acquire_many_owned(share).await;
        let turn = turn.expect("invariant: the semaphore is never closed");
        let drawn = spawn_blocking(move || {
            let drawn = picture::redraw(&file);
            drop(turn);
            drawn
        });
        Ok(drawn.await.unwrap_or(Err(Refusal::Broken))?)
    }

    fn row(&self, session: &Session, picture: &Picture) -> Result<Image, Error> {
        let mut key = [0; KEY_BYTES];
        rand::rng().fill_bytes(&mut key);
        let small = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Ok(Image {
            id: self.infra.ids.next()?,
            owner_id: session.user_id.0,
            object_key: hex::encode(key),
            state: ImageState::Storing,
            content_type: picture.content_type.to_owned(),
            width: small(picture.width),
            height: small(picture.height),
            bytes: i32::try_from(picture.bytes.len()).unwrap_or(i32::MAX),
            sha256: picture.sha256.clone(),
            created_at: self.infra.clock.now_ms(),
        })
    }

    async fn keep(
        &self,
        session: &Session,
        ids: &[ImageId],
        argument: &'static str,
    ) -> Result<Vec<Image>, Error> {
        let is_own = |image: &Image| image.owner_id == session.user_id.0;
        // Asked first: when one is not his, the others stay what they were.
        let found = self.get_many(ids).await?;
        if found.into_iter().filter(is_own).count() < ids.len() {
            return Err(Error::NotYours { argument });
        }
        for chunk in ids.chunks(IDS_PER_READ) {
            image::Entity::update_many()
                .col_expr(
                    image::Column::State,
                    Expr::value(ImageState::Kept.to_value()),
                )
                .filter(image::Column::Id.is_in(chunk.iter().map(|id| id.0)))
                .filter(image::Column::OwnerId.eq(session.user_id.0))
                .filter(image::Column::State.eq(ImageState::New))
                .exec(self.infra.db.conn())
                .await?;
        }
        let found = self.get_many(ids).await?;
        let kept: HashMap<i64, Image> = found
            .into_iter()
            .filter(|image| is_own(image) && image.state == ImageState::Kept)
            .map(|i| (i.id, i))
            .collect();
        ids.iter()
            .map(|id| kept.get(&id.0).cloned().ok_or(Error::NotYours { argument }))
            .collect()
    }

    async fn by_key(&self, key: &str) -> Result<Option<Image>, Error> {
        let fits = key.len() == 2 * KEY_BYTES
            && key
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !fits {
            return Ok(None);
        }
        let found = image::Entity::find()
            .filter(image::Column::ObjectKey.eq(key))
            .filter(image::Column::State.is_in([ImageState::New, ImageState::Kept]))
            .one(self.infra.db.conn())
            .await?;
        Ok(found)
    }

    fn own_url(&self, image: &Image) -> String {
        format!("{}/uploads/{}", self.public_url, image.object_key)
    }

    /// Whether the picture was in the first state, and is in the second now.
    async fn change(&self, id: ImageId, from: ImageState, to: ImageState) -> Result<bool, DbErr> {
        let changed = image::Entity::update_many()
            .col_expr(image::Column::State, Expr::value(to.to_value()))
            .filter(image::Column::Id.eq(id.0))
            .filter(image::Column::State.eq(from))
            .exec(self.infra.db.conn())
            .await?;
        Ok(changed.rows_affected == 1)
    }

    /// The object first: a row without its object is found again, an object without its row never.
    async fn remove(&self, image: &Image) -> Result<(), Error> {
        self.store.delete(&image.object_key).await?;
        image::Entity::delete_by_id(image.id)
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }
}

/// Pictures as a column of a row keeps them: a JSON array of strings, in their order.
pub fn to_column(ids: &[ImageId]) -> String {
    let texts: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
    format!("[{}]", texts.join(","))
}

/// The pictures that a column keeps; none when it is no such text.
pub fn from_column(text: &str) -> Vec<ImageId> {
    serde_json::from_str(text).unwrap_or_default()
}
