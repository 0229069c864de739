"""Makes documents and, beside each, the text that it holds."""
import datetime
import random
import sys
from pathlib import Path

import docx
import openpyxl
import pptx
import xlwt
from pptx.util import Inches

out, size = Path(sys.argv[1]), int(sys.argv[2])
rand = random.Random(7)
VOCABULARY = """the of ledger balance gateway upstream naïve Straße Ünïcode данные 東京 資料 prix élevé
meter hold settle request answer stream token price 2026 1,234.50 don't e-mail α β γ 🙂""".split()


def sentence():
    return " ".join(rand.choice(VOCABULARY) for _ in range(rand.randint(4, 14)))


def keep(name, text):
    (out / (name + ".txt")).write_text("\n".join(text), encoding="utf-8")


def word_document():
    d, text = docx.Document(), []

    def said(t):
        text.append(t)
        return t

    d.sections[0].header.paragraphs[0].text = said("Header " + sentence())
    d.sections[0].footer.paragraphs[0].text = said("Footer " + sentence())
    d.add_heading(said("Report " + sentence()), 0)
    for i in range(size):
        p = d.add_paragraph()
        for style in ("", "bold", "italic"):
            run = p.add_run(said(sentence()) + " ")
            setattr(run, style or "underline", True)
        if i % 10 == 0:
            d.add_paragraph(said(sentence()), style="List Bullet")
            table = d.add_table(rows=3, cols=3)
            for row in table.rows:
                for cell in row.cells:
                    cell.text = said(sentence())
    d.save(out / "made.docx")
    keep("made.docx", text)


def slides():
    d, text = pptx.Presentation(), []
    for i in range(size // 5 + 2):
        slide = d.slides.add_slide(d.slide_layouts[1])
        for shape in slide.placeholders:
            t = sentence()
            shape.text = t
            text.append(t)
        table = slide.shapes.add_table(2, 2, Inches(1), Inches(4), Inches(6), Inches(1)).table
        for row in table.rows:
            for cell in row.cells:
                cell.text = sentence()
                text.append(cell.text)
        note = f"Note {i} " + sentence()
        slide.notes_slide.notes_text_frame.text = note
        text.append(note)
    d.save(out / "made.pptx")
    keep("made.pptx", text)


def rows():
    for i in range(size):
        day = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=i)
        yield [i, sentence(), i / 4, i % 2 == 0, day, None, sentence()]


def shown(v):
    if isinstance(v, bool):
        return str(v).upper()
    if isinstance(v, datetime.datetime):
        return v.strftime("%Y-%m-%d")
    if isinstance(v, float) and v == int(v):
        return str(int(v))
    return "" if v is None else str(v)


def table(cells, head=False):
    text = "|" + "".join(f" {c} |" if c else " |" for c in cells)
    return text + "\n|" + " --- |" * len(cells) if head else text


def workbook():
    d, text = openpyxl.Workbook(), []
    for name in ("First", "Zweites Blatt"):
        sheet = d.active if name == "First" else d.create_sheet(name)
        sheet.title = name
        text.append(name)
        for y, row in enumerate(rows()):
            sheet.append(row)
            sheet.cell(sheet.max_row, 5).number_format = "yyyy-mm-dd"
            text.append(table([shown(v) for v in row], y == 0))
    d.save(out / "made.xlsx")
    keep("made.xlsx", text)


def old_workbook():
    d, text = xlwt.Workbook(), []
    date = xlwt.easyxf(num_format_str="yyyy-mm-dd")
    for name in ("First", "Zweites Blatt"):
        sheet = d.add_sheet(name)
        text.append(name)
        for y, row in enumerate(rows()):
            for x, v in enumerate(row):
                if isinstance(v, datetime.datetime):
                    sheet.write(y, x, v, date)
                elif v is not None:
                    sheet.write(y, x, v)
            text.append(table([shown(v) for v in row], y == 0))
    d.save(str(out / "made.xls"))
    keep("made.xls", text)


word_document()
slides()
workbook()
old_workbook()
