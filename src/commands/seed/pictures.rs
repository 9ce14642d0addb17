//! Pictures for the demo notes, drawn here so that nobody's photographs are needed: a bowl on a table, in colours that
//! follow from a number.

use std::f64::consts::PI;
use std::io::Cursor;

use anyhow::Context;
use image::{ImageFormat, Rgb, RgbImage};

/// Pixels of a picture, across and down.
const WIDTH: u32 = 400;
const HEIGHT: u32 = 300;

/// A picture as a PNG file; the same number draws the same picture.
pub(super) fn bowl(number: u32) -> anyhow::Result<Vec<u8>> {
    let hue = f64::from(number) * 0.381_966;
    let picture = RgbImage::from_fn(WIDTH, HEIGHT, |x, y| pixel(hue, x, y));
    let mut file = Cursor::new(Vec::new());
    picture
        .write_to(&mut file, ImageFormat::Png)
        .context("draw a picture")?;
    Ok(file.into_inner())
}

fn pixel(hue: f64, x: u32, y: u32) -> Rgb<u8> {
    let (x, y) = (
        f64::from(x) / f64::from(WIDTH) - 0.5,
        f64::from(y) / f64::from(HEIGHT) - 0.5,
    );
    // Seen from a little above, so a circle is flat.
    let reach = (x * x + y * y * 1.6).sqrt();
    let garnish = (7.0 * y.atan2(x) + 40.0 * reach).sin();
    match reach {
        r if r < 0.22 && garnish > 0.7 => color(hue + 0.33, 0.55, 0.75),
        r if r < 0.24 => color(hue, 0.65, 0.9 - r),
        r if r < 0.30 => color(hue, 0.08, 0.95),
        r if r < 0.32 => color(hue, 0.15, 0.55),
        _ => color(hue + 0.5, 0.35, 0.45 + 0.2 * (y + 0.5)),
    }
}

/// A colour by its hue in turns, and saturation and brightness from 0 to 1: each channel is a cosine, a third of a turn
/// from the next.
fn color(hue: f64, saturation: f64, brightness: f64) -> Rgb<u8> {
    let channel = |turn: f64| {
        let wave = 0.5 + 0.5 * (2.0 * PI * (hue + turn)).cos();
        let share = brightness * (1.0 - saturation + saturation * wave);
        // Between 0 and 1, so it fits.
        (share.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    Rgb([channel(0.0), channel(-1.0 / 3.0), channel(-2.0 / 3.0)])
}
