// Package characters shows the characters of the operator's folder (addendum 18): the
// list with its filters, one of them, what is said of each, and their pictures. Chats
// get their prompts through [routes.Characters].
//
// Capability is what main registers. A folder (config.CharacterFolder) is read live; a
// stage is one state of it with what the ledger knows of it, made anew when either has
// changed and sorted when first asked for, so that no request reads files or the store
// but for the first look at reviews that are new.
//
// Nothing is sold here. What may not enter: a prompt, in any form, into anything that is
// answered or logged.
package characters
