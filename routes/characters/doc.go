// Package characters shows the characters of the operator's folder (addendum 18): the list with
// its filters, one of them, its reviews, and their pictures. Chats get their prompts through
// [routes.Characters].
//
// Capability is the type that main registers. A folder (config.CharacterFolder) is read live; a
// snapshot is one state of it with the ledger's statistics, made anew when either has changed and
// sorted when first asked for, so that no request reads files or the store but for the first look
// at reviews that are new.
//
// Nothing is sold here. A prompt must not enter an answer or a log, in any form.
package characters
