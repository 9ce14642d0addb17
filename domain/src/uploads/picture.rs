//! What a picture is: its first bytes say which kind, its header how large, and it is drawn anew, so that only the
//! picture is left of a file. Knows no store.
//!
//! JPEG, PNG, WebP and GIF are taken, of the moving ones the first frame. They are stored as PNG where they were
//! without loss or one can look through them, else as JPEG; too large a PNG without anything to look through becomes a
//! JPEG too. What else was in the file (where it was taken, thumbnails, comments, colour profiles, whatever was hung
//! on its end) is gone; the turn that a camera noted is carried out.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::error::ImageError;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use sha2::{Digest, Sha256};

use super::FILE_MAX_BYTES;

/// Pixels of a picture, told by its header before anything is decoded.
pub const MOST_PIXELS: u64 = 40_000_000;
/// Pixels of a side; more is no picture but an attack on whoever shows it.
const LONGEST_SIDE: u32 = 20_000;
/// Bytes of a decoded picture: four for each pixel.
const LARGEST_RASTER: u64 = 4 * MOST_PIXELS;
/// Bytes that a decoder may take beside the picture.
const DECODER_BYTES: u64 = 16 * 1024 * 1024;
/// Passes over a JPEG's picture; programs write a dozen, and each costs as much as the whole picture.
const MOST_SCANS: u32 = 30;
/// How good a JPEG is drawn, best first; the next one is tried while it is too large.
const QUALITIES: [u8; 3] = [85, 70, 50];

/// Why a file is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Too many bytes.
    #[error("a picture has at most {FILE_MAX_BYTES} bytes, as it comes and as it is stored")]
    TooLarge,
    /// No kind of picture that is taken, whatever its name or type say.
    #[error("the file is no JPEG, PNG, WebP or GIF")]
    UnknownKind,
    /// Its header says that it is too large.
    #[error("a picture has at most {MOST_PIXELS} pixels, and {LONGEST_SIDE} on a side")]
    TooManyPixels,
    /// It ends too early, or is not what its header says.
    #[error("the picture is broken or incomplete")]
    Broken,
}

/// A picture as it is stored.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) bytes: Vec<u8>,
    pub(super) sha256: String,
    pub(super) content_type: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Pixels of a file's picture by its header; cheap.
pub(super) fn measure(file: &[u8]) -> Result<u64, Refusal> {
    let (_, decoder) = open(file)?;
    let (width, height) = decoder.dimensions();
    Ok(u64::from(width) * u64::from(height))
}

/// Draws a file's picture anew.
pub(super) fn redraw(file: &[u8]) -> Result<Picture, Refusal> {
    let (format, mut decoder) = open(file)?;
    let turn = decoder.orientation().map_err(|e| refusal(&e))?;
    let mut drawn = DynamicImage::from_decoder(decoder).map_err(|e| refusal(&e))?;
    drawn.apply_orientation(turn);
    let (width, height) = (drawn.width(), drawn.height());
    let (bytes, content_type) = write(drawn, format)?;
    Ok(Picture {
        sha256: hex::encode(Sha256::digest(&bytes)),
        bytes,
        content_type,
        width,
        height,
    })
}

/// Reads the header, and refuses what should not be decoded.
fn open(file: &[u8]) -> Result<(ImageFormat, impl ImageDecoder), Refusal> {
    if file.is_empty() {
        return Err(Refusal::Empty);
    }
    if file.len() > FILE_MAX_BYTES {
        return Err(Refusal::TooLarge);
    }
    let format = kind(file).ok_or(Refusal::UnknownKind)?;
    // The decoder paints grey over what is missing.
    if format == ImageFormat::Jpeg && !is_whole_jpeg(file) {
        return Err(Refusal::Broken);
    }
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(LONGEST_SIDE);
    limits.max_image_height = Some(LONGEST_SIDE);
    limits.max_alloc = Some(match format {
        // Its decoder counts only what it unpacks beside the picture, and does that while it reads the header.
        ImageFormat::Png => DECODER_BYTES,
        _ => DECODER_BYTES + LARGEST_RASTER,
    });
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|e| refusal(&e))?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(Refusal::Broken);
    }
    if pixels > MOST_PIXELS || decoder.total_bytes() > LARGEST_RASTER {
        return Err(Refusal::TooManyPixels);
    }
    Ok((format, decoder))
}

/// The kind by the first bytes; names and declared types are the sender's word only.
fn kind(file: &[u8]) -> Option<ImageFormat> {
    match file {
        [0xff, 0xd8, 0xff, ..] => Some(ImageFormat::Jpeg),
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(ImageFormat::Png),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageFormat::Gif),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some(ImageFormat::WebP),
        _ => None,
    }
}

/// Whether a JPEG goes on to its end-of-image marker, in a sane number of passes. Walks from segment to segment: a
/// thumbnail inside has an end too.
fn is_whole_jpeg(file: &[u8]) -> bool {
    let (mut at, mut scans) = (2, 0);
    loop {
        // Between segments and in picture data, whatever is no marker is passed over.
        let Some(ahead) = file
            .get(at..)
            .and_then(|rest| rest.iter().position(|b| *b == 0xff))
        else {
            return false;
        };
        at += ahead + 1;
        match file.get(at) {
            None => return false,
            Some(0xd9) => return true,
            // A stuffed byte, a filling one, a restart or another marker without a body.
            Some(0x00 | 0xff | 0x01 | 0xd0..=0xd8) => {
                at += usize::from(file[at] != 0xff);
            }
            Some(marker) => {
                scans += u32::from(*marker == 0xda);
                if scans > MOST_SCANS {
                    return false;
                }
                let Some([high, low]) = file.get(at + 1..at + 3) else {
                    return false;
                };
                at += 1 + usize::from(u16::from_be_bytes([*high, *low])).max(2);
            }
        }
    }
}

fn write(drawn: DynamicImage, from: ImageFormat) -> Result<(Vec<u8>, &'static str), Refusal> {
    let drawn = flat(drawn);
    let see_through = drawn.color().has_alpha();
    if see_through || matches!(from, ImageFormat::Png | ImageFormat::Gif) {
        let mut bytes = Vec::new();
        let encoder = PngEncoder::new_with_quality(
            &mut bytes,
            CompressionType::Default,
            FilterType::Adaptive,
        );
        drawn.write_with_encoder(encoder).map_err(|e| refusal(&e))?;
        if bytes.len() <= FILE_MAX_BYTES {
            return Ok((bytes, "image/png"));
        }
        if see_through {
            return Err(Refusal::TooLarge);
        }
    }
    for quality in QUALITIES {
        let mut bytes = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
        drawn.write_with_encoder(encoder).map_err(|e| refusal(&e))?;
        if bytes.len() <= FILE_MAX_BYTES {
            return Ok((bytes, "image/jpeg"));
        }
    }
    Err(Refusal::TooLarge)
}

/// Eight bits a colour, and no transparency where nothing is transparent.
fn flat(drawn: DynamicImage) -> DynamicImage {
    if !drawn.color().has_alpha() {
        return match drawn {
            DynamicImage::ImageLuma8(_) | DynamicImage::ImageRgb8(_) => drawn,
            DynamicImage::ImageLuma16(_) => DynamicImage::ImageLuma8(drawn.into_luma8()),
            _ => DynamicImage::ImageRgb8(drawn.into_rgb8()),
        };
    }
    let drawn = drawn.into_rgba8();
    if drawn.pixels().all(|pixel| pixel.0[3] == u8::MAX) {
        DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(drawn).into_rgb8())
    } else {
        DynamicImage::ImageRgba8(drawn)
    }
}

fn refusal(error: &ImageError) -> Refusal {
    match error {
        ImageError::Limits(_) => Refusal::TooManyPixels,
        _ => Refusal::Broken,
    }
}

#[cfg(test)]
mod tests {
    use image::{DynamicImage, RgbImage};

    use super::{MOST_SCANS, Refusal, is_whole_jpeg, kind, redraw};

    /// Start, a segment with a thumbnail's end in it, `scans` passes with a stuffed byte and a restart, end.
    fn jpeg(scans: usize) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xe1, 0, 6, 0xff, 0xd9, 0xff, 0xd9];
        for _ in 0..scans {
            bytes.extend([0xff, 0xda, 0, 3, 1, 7, 0xff, 0, 0xff, 0xd0, 7]);
        }
        bytes.extend([0xff, 0xff, 0xd9]);
        bytes
    }

    #[test]
    fn a_jpeg_ends_with_its_own_end_and_not_with_a_thumbnails() {
        let whole = jpeg(2);
        assert!(is_whole_jpeg(&whole));
        assert!(is_whole_jpeg(&[&whole[..], b"<html>"].concat()));
        for kept in 0..whole.len() {
            assert!(!is_whole_jpeg(&whole[..kept]), "{kept}");
        }
    }

    #[test]
    fn a_jpeg_of_too_many_passes_is_none() {
        let most = MOST_SCANS as usize;
        assert!(is_whole_jpeg(&jpeg(most)));
        assert!(!is_whole_jpeg(&jpeg(most + 1)));
    }

    #[test]
    fn only_first_bytes_say_what_a_file_is() {
        assert!(kind(b"<svg/>").is_none() && kind(b"").is_none());
        assert_eq!(redraw(b"").unwrap_err(), Refusal::Empty);
        assert_eq!(redraw(b"RIFF....WAVE").unwrap_err(), Refusal::UnknownKind);
    }

    #[test]
    fn a_png_that_would_be_too_large_becomes_a_jpeg() {
        // What cannot be packed: a different colour at each place.
        let noise = RgbImage::from_fn(1_500, 1_500, |x, y| {
            let mixed =
                (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)).rotate_left(13);
            let [r, g, b, _] = mixed.wrapping_mul(3_266_489_917).to_be_bytes();
            image::Rgb([r, g, b])
        });
        let drawn = DynamicImage::ImageRgb8(noise);
        let (bytes, kind) = super::write(drawn, image::ImageFormat::Png).unwrap();
        assert_eq!(kind, "image/jpeg");
        assert!(bytes.len() <= super::FILE_MAX_BYTES);
    }
}
