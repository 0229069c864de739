// Package characters tests characters (interface.md, Characters; addendum 18) through the
// binary: their list, reviews and pictures, the folder that is read live, the operator's
// commands, and chats with them, whose prompts are paid for and never shown.
package characters
