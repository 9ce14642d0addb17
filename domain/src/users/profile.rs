//! What users tell about themselves, and its rules. Roles, phones and bans are not theirs to change.

use chrono::{DateTime, NaiveDate, Utc};
use entity::user;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveEnum, ColumnTrait, EntityTrait, QueryFilter, UpdateMany};

use super::{Error, Gender};
use crate::infra::text::check_text;
use crate::infra::zones::Zone;

/// Characters of a nickname, at most.
pub const NICKNAME_MAX_CHARS: usize = 32;
/// Characters of the text about oneself, at most.
pub const INTRO_MAX_CHARS: usize = 200;
/// Characters of a city's name, at most.
pub const CITY_MAX_CHARS: usize = 60;
/// Characters of a picture's address, at most.
pub const AVATAR_URL_MAX_CHARS: usize = 512;
/// East of all others it is tomorrow already, 14 hours before UTC.
const EARLIEST_ZONE_HOURS: i64 = 14;
/// Nobody alive was born before.
const OLDEST_BIRTH_YEAR: i32 = 1900;

/// Changes to a profile: `None` leaves as it is, `Some(None)` clears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileChange {
    /// 1 to 32 characters.
    pub nickname: Option<String>,
    /// An `http` or `https` address of at most 512 characters.
    pub avatar_url: Option<Option<String>>,
    /// 1 to 60 characters.
    pub city: Option<Option<String>>,
    /// At most 200 characters.
    pub intro: Option<Option<String>>,
    /// As the user says.
    pub gender: Option<Option<Gender>>,
    /// From 1900 on, not in the future anywhere on Earth.
    pub birthday: Option<Option<NaiveDate>>,
    /// The IANA name of a time zone.
    pub time_zone: Option<Option<String>>,
}

impl ProfileChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks every part against the rules.
    pub(super) fn check(&self, now_ms: i64) -> Result<(), Error> {
        if let Some(nickname) = &self.nickname {
            check_text("input.nickname", nickname, 1, NICKNAME_MAX_CHARS)?;
        }
        if let Some(Some(city)) = &self.city {
            check_text("input.city", city, 1, CITY_MAX_CHARS)?;
        }
        if let Some(Some(intro)) = &self.intro {
            check_text("input.intro", intro, 0, INTRO_MAX_CHARS)?;
        }
        if let Some(Some(url)) = &self.avatar_url {
            check_text("input.avatarUrl", url, 1, AVATAR_URL_MAX_CHARS)?;
            check_picture_url(url)?;
        }
        if let Some(Some(birthday)) = self.birthday {
            check_birthday(birthday, now_ms)?;
        }
        if let Some(Some(zone)) = &self.time_zone {
            zone.parse::<Zone>()?;
        }
        Ok(())
    }

    /// The statement that makes the change to one user.
    pub(super) fn update(self, id: i64, now_ms: i64) -> UpdateMany<user::Entity> {
        use user::Column;
        let mut update = user::Entity::update_many()
            .filter(Column::Id.eq(id))
            .col_expr(Column::Version, Expr::col(Column::Version).add(1))
            .col_expr(Column::UpdatedAt, Expr::value(now_ms));
        if let Some(nickname) = self.nickname {
            update = update.col_expr(Column::Nickname, Expr::value(nickname));
        }
        for (column, text) in [
            (Column::AvatarUrl, self.avatar_url),
            (Column::City, self.city),
            (Column::Intro, self.intro),
            (Column::TimeZone, self.time_zone),
        ] {
            if let Some(text) = text {
                update = update.col_expr(column, Expr::value(text));
            }
        }
        if let Some(gender) = self.gender {
            update = update.col_expr(Column::Gender, Expr::value(gender.map(|g| g.to_value())));
        }
        if let Some(birthday) = self.birthday {
            update = update.col_expr(Column::Birthday, Expr::value(birthday));
        }
        update
    }
}

/// Clients show it as a picture, so nothing else that browsers open may be in it.
fn check_picture_url(url: &str) -> Result<(), Error> {
    let parsed = reqwest::Url::parse(url).map_err(|_| Error::BadAvatarUrl)?;
    let is_web = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    let is_plain = parsed.username().is_empty()
        && parsed.password().is_none()
        && !url.contains(char::is_whitespace);
    if is_web && is_plain {
        Ok(())
    } else {
        Err(Error::BadAvatarUrl)
    }
}

fn check_birthday(birthday: NaiveDate, now_ms: i64) -> Result<(), Error> {
    use chrono::Datelike;
    let latest = DateTime::<Utc>::from_timestamp_millis(now_ms + EARLIEST_ZONE_HOURS * 3_600_000)
        .map(|t| t.date_naive());
    if latest.is_some_and(|latest| birthday > latest) || birthday.year() < OLDEST_BIRTH_YEAR {
        return Err(Error::BadBirthday);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::{Error, ProfileChange};
    use crate::infra::fault::{Fault, Faulty};

    /// 2026-03-01T12:00:00Z.
    const NOW_MS: i64 = 1_772_366_400_000;

    fn check(change: &ProfileChange) -> Result<(), Error> {
        change.check(NOW_MS)
    }

    #[test]
    fn an_error_names_the_argument() {
        let change = ProfileChange {
            nickname: Some("a".repeat(33)),
            ..ProfileChange::default()
        };
        assert_eq!(
            check(&change).unwrap_err().fault(),
            Fault::BadInput {
                argument: "input.nickname"
            }
        );
        let change = ProfileChange {
            intro: Some(Some("\u{202E}".to_owned())),
            ..ProfileChange::default()
        };
        assert_eq!(
            check(&change).unwrap_err().fault(),
            Fault::BadInput {
                argument: "input.intro"
            }
        );
    }

    #[test]
    fn lengths_are_those_of_the_product() {
        let change = |nickname: usize, city: usize, intro: usize| ProfileChange {
            nickname: Some("😀".repeat(nickname)),
            city: Some(Some("河".repeat(city))),
            intro: Some(Some("x".repeat(intro))),
            ..ProfileChange::default()
        };
        assert!(check(&change(32, 60, 200)).is_ok());
        assert!(check(&change(1, 1, 0)).is_ok());
        for too_much in [
            change(33, 60, 200),
            change(32, 61, 200),
            change(32, 60, 201),
            change(0, 60, 200),
        ] {
            assert!(check(&too_much).is_err());
        }
    }

    #[test]
    fn only_web_addresses_are_pictures() {
        let change = |url: &str| ProfileChange {
            avatar_url: Some(Some(url.to_owned())),
            ..ProfileChange::default()
        };
        assert!(check(&change("https://cdn.example/a.png?size=2")).is_ok());
        for url in [
            "",
            "a.png",
            "javascript:alert(1)",
            "data:image/png;base64,AA",
            "https://user:pass@cdn.example/",
            "http:// a.b",
        ] {
            assert!(check(&change(url)).is_err(), "{url}");
        }
    }

    #[test]
    fn nobody_is_born_tomorrow() {
        let change = |year, month, day| ProfileChange {
            birthday: Some(NaiveDate::from_ymd_opt(year, month, day)),
            ..ProfileChange::default()
        };
        assert!(
            check(&change(2026, 3, 2)).is_ok(),
            "in Kiribati it is the second of March already"
        );
        assert!(check(&change(2026, 3, 3)).is_err());
        assert!(check(&change(1899, 12, 31)).is_err());
    }
}
