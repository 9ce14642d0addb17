//! The hot list: the notes that most people like, of two with as many likes the later one first.
//!
//! Likes come and go while people scroll, so pages are not cut from the table: every two seconds there is a new ranking,
//! made once for all nodes by whoever is asked first and kept for a while, and a cursor names the ranking that its page
//! was cut from. Whoever goes on by cursors therefore sees each note at most once and misses none that was ranked,
//! whatever is liked meanwhile, and always comes to an end. Notes that are deleted meanwhile are skipped. A cursor whose
//! ranking is gone is refused: one begins anew.

use std::fmt;
use std::time::Duration;

use entity::blog::{self, Column};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::{Blog, BlogId, Blogs, Error};
use crate::infra::cache::Kind;

/// Notes in a ranking: more than anybody scrolls through.
pub const RANKED: usize = 500;
/// How long a ranking can be gone on with: longer than any pace, so that the one of this moment is always there.
const RANKING_LIFE: Duration = Duration::from_secs(20 * 60);
/// Rounds back that are still made when they are asked for: one may end while its ranking is being made.
const ROUNDS_BACK: i64 = 2;

/// How often there is a new ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// Every two seconds.
    Usual,
    /// Every ten minutes, to spare the database.
    Slow,
}

impl Pace {
    fn period_ms(self) -> i64 {
        match self {
            Self::Usual => 2_000,
            Self::Slow => 600_000,
        }
    }
}

/// A place in a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotKey {
    round: Round,
    /// Tells this ranking from another one of the same round, should the cache have lost this.
    made: i64,
    place: usize,
}

/// A hot note and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotBlog {
    /// Where it stands.
    pub key: HotKey,
    /// The note as it is now.
    pub blog: Blog,
}

/// A stretch of time that has one ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Round {
    pace: Pace,
    number: i64,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.pace, self.number)
    }
}

impl Round {
    fn at(pace: Pace, now_ms: i64) -> Self {
        Self {
            pace,
            number: now_ms.div_euclid(pace.period_ms()),
        }
    }
}

/// Notes in their order. Never changes once it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ranking {
    made: i64,
    ids: Vec<BlogId>,
}

/// The ranking of a round.
#[derive(Clone, Copy)]
struct RankingByRound;

impl Kind for RankingByRound {
    type Key = Round;
    type Value = Ranking;
    const NAME: &'static str = "hot_blogs";
    const REDIS_LIFE: Duration = RANKING_LIFE;
}

impl Blogs {
    /// Hot notes after a place in their ranking, in the latest one when there is no place; at most `limit`.
    ///
    /// # Errors
    /// `RankingGone` when the place's ranking is kept no more; trouble of the database.
    pub async fn hot(
        &self,
        pace: Pace,
        after: Option<HotKey>,
        limit: usize,
    ) -> Result<Vec<HotBlog>, Error> {
        let now = Round::at(pace, self.infra.clock.now_ms());
        let (round, begin) = after.map_or((now, 0), |key| (key.round, key.place + 1));
        let ranking = self.ranking(round).await?.ok_or(Error::RankingGone)?;
        if after.is_some_and(|key| key.made != ranking.made) {
            return Err(Error::RankingGone);
        }
        let mut found = Vec::with_capacity(limit);
        let mut place = begin;
        for ids in ranking.ids[begin.min(ranking.ids.len())..].chunks(limit.max(1)) {
            let mut shown = self.shown(ids).await?.into_iter().peekable();
            for id in ids {
                if let Some(blog) = shown.next_if(|blog| blog.id == id.0) {
                    let made = ranking.made;
                    let key = HotKey { round, made, place };
                    found.push(HotBlog { key, blog });
                }
                place += 1;
            }
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn ranking(&self, round: Round) -> Result<Option<Ranking>, Error> {
        let blogs = self.clone();
        let load = move || {
            let blogs = blogs.clone();
            async move { blogs.rank(round).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load(RankingByRound, &round, 0, load).await?;
        Ok(found.as_deref().cloned())
    }

    /// Makes the ranking of a round, `None` for one that is long past.
    async fn rank(&self, round: Round) -> Result<Option<(i64, Ranking)>, DbErr> {
        let now = Round::at(round.pace, self.infra.clock.now_ms());
        if round.number < now.number - ROUNDS_BACK {
            return Ok(None);
        }
        let ids: Vec<i64> = blog::Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::DeletedAt.is_null())
            .order_by_desc(Column::LikeCount)
            .order_by_desc(Column::Id)
            .limit(RANKED as u64)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        let ranking = Ranking {
            made: rand::random(),
            ids: ids.into_iter().map(BlogId).collect(),
        };
        Ok(Some((1, ranking)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_a_name_that_a_key_may_hold() {
        let round = Round::at(Pace::Usual, 5_999);
        assert_eq!(round.to_string(), "Usual:2");
        assert_eq!(Round::at(Pace::Slow, 599_999).to_string(), "Slow:0");
    }

    #[test]
    fn a_ranking_outlives_its_round() {
        let slow = Duration::from_millis(Pace::Slow.period_ms().unsigned_abs());
        assert!(RANKING_LIFE.mul_f64(0.9) > slow);
    }
}
