//! A watch on the settings file.
