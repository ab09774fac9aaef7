"""Makes the documents of this folder with libraries that are not ours.

python3 -m venv venv && venv/bin/pip install python-docx==1.2.0 python-pptx==1.0.2 openpyxl==3.1.5 ebooklib==0.20
venv/bin/python make.py
"""

import datetime

import docx
import openpyxl
import pptx
from ebooklib import epub


def word():
    d = docx.Document()
    d.core_properties.title = "Terms of delivery"
    d.core_properties.language = "en-GB"
    d.add_heading("Terms", 0)
    d.add_heading("Delivery", 2)
    p = d.add_paragraph("Goods arrive within ")
    p.add_run("ten days").bold = True
    p.add_run(" & are paid on receipt.")
    d.add_paragraph("by road", style="List Bullet")
    d.add_paragraph("by rail", style="List Number")
    t = d.add_table(rows=2, cols=2)
    for n, text in enumerate(["Region", "Days", "Łódź", "3"]):
        t.cell(n // 2, n % 2).text = text
    d.add_paragraph("End.")
    d.save("terms.docx")


def slides():
    p = pptx.Presentation()
    p.core_properties.title = "Plan"
    s = p.slides.add_slide(p.slide_layouts[1])
    s.shapes.title.text = "Where we stand"
    s.placeholders[1].text = "Sales rose\nCosts fell"
    s.notes_slide.notes_text_frame.text = "Thank the depot."
    p.slides.add_slide(p.slide_layouts[6])
    s = p.slides.add_slide(p.slide_layouts[5])
    s.shapes.title.text = "Figures"
    t = s.shapes.add_table(2, 2, 0, 0, 4000000, 1000000).table
    for n, text in enumerate(["Region", "Units", "North", "17"]):
        t.cell(n // 2, n % 2).text = text
    p.save("plan.pptx")


def sheets():
    w = openpyxl.Workbook()
    w.properties.title = "Stock"
    w.active.title = "Parts"
    w.active.append(["Part", "Price", "Since"])
    w.active.append(["bolt", 1.5, datetime.date(2024, 3, 9)])
    w.active.append([])
    w.active.append(["nut", "=B2*2", None])
    hidden = w.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    w.create_sheet("Numbers").append([1, 2])
    w.save("stock.xlsx")


def book():
    b = epub.EpubBook()
    b.set_identifier("tale")
    b.set_title("A tale")
    b.set_language("en")
    two = epub.EpubHtml(title="Two", file_name="text/a two.xhtml", content="<h1>Two</h1><p>It ended.</p>")
    one = epub.EpubHtml(title="One", file_name="text/b.xhtml", content="<h1>One</h1><p>It began.</p>")
    for chapter in (two, one):
        b.add_item(chapter)
    b.add_item(epub.EpubNcx())
    b.add_item(epub.EpubNav())
    b.spine = [one, two, one]
    epub.write_epub("tale.epub", b)


word(), slides(), sheets(), book()
