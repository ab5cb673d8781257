from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.RenameField("receipt", "job_id", "result_id"),
        migrations.AlterField("receipt", "result_id", models.CharField(max_length=63)),
        migrations.RenameField("run", "job_id", "result_id"),
        migrations.AlterField("run", "result_id", models.CharField(db_index=True, max_length=63)),
    ]
