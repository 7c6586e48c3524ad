//! A picture, and its file.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Pixels of 8 bits a channel: red, green, blue, opacity, in the colour space of screens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Four bytes a pixel, row by row from the top.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// The colour at a place, without its opacity; `None` outside.
    ///
    /// # Example
    ///
    /// ```
    /// use graphics::Picture;
    ///
    /// let red = Picture { width: 1, height: 1, pixels: vec![255, 0, 0, 255] };
    /// assert_eq!(red.at(0, 0), Some([255, 0, 0]));
    /// assert_eq!(red.at(1, 0), None);
    /// ```
    #[must_use]
    pub fn at(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        if x >= self.width || y >= self.height {
            return None;
        }
        let index = (y as usize * self.width as usize + x as usize) * 4;
        self.pixels.get(index..index + 3)?.try_into().ok()
    }

    /// Writes it as a PNG.
    ///
    /// # Errors
    ///
    /// The file's.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        Ok(writer.finish()?)
    }
}
