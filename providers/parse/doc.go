// Package parse makes text of documents that clients send: PDF, DOCX, PPTX,
// XLSX, XLS, EPUB, and everything that is text already. A [Parser] tells formats
// by their content, never by a name, and has [Jobs] done in the jail, or runs an
// operator's pdftotext or tesseract; an [Error] says to the client what is
// wrong with the document.
//
// The text is what a person sees: with form fields and lists' numbers, without what is
// hidden or deleted; tables are Markdown.
//
// Readers count what they unpack (archives, parts, nesting, text) and stop with
// a sentence; what they overlook ends at the jail's limits. Text leaves the child in
// pieces while it is read, so that what was read before a limit is not lost.
//
// What may not enter: knowledge of requests, models and prices.
package parse
